mod origin;
mod policy;
mod replay;
mod savings;
mod whole;
