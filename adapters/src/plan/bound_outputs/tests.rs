mod origin;
mod policy;
mod replay;
mod whole;
