//! The command line from outside, in one binary.

mod bench;
mod cli;
mod contracts;
mod documents;
mod draw;
mod exec;
mod judge;
mod ladder;
mod language;
mod large;
mod mutants;
mod new;
mod pick;
mod profile;
mod sweep;
mod tile;
mod uncompared;
