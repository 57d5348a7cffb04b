//! PTX as data: typed instructions, builder, printer, parser, verifier. It knows nothing about GEMM.

pub mod asynchronous;
pub mod build;
pub mod extended;
pub mod forms;
pub mod hints;
pub mod instruction;
mod legality;
mod lexer;
pub mod matrix;
mod mnemonic;
mod modifier;
pub mod module;
mod names;
pub mod normal;
pub mod parse;
pub mod print;
mod prototype;
mod signature;
mod special;
mod table;
pub mod target;
mod text;
pub mod types;
pub mod verify;
pub mod warp;
