//! Lowers a plan through tile IR and kernel IR to PTX.
