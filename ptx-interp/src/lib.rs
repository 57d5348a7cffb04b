//! Runs PTX text on the CPU and watches it.
