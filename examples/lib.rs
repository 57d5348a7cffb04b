//! The programs are examples of this package.
