mod policy;
mod replay;
