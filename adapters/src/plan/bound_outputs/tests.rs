mod origin;
mod policy;
mod replay;
