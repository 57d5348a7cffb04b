//! Ctrl-C in a long command: it ends with what it has so far, and at once the second time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The exit status of a command that is ended at once, as shells have it: 128 and the number of the signal.
const AT_ONCE: i32 = 128 + SIGINT;

/// Whether the command was told to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on Ctrl-C and a request to terminate are noted. Where they cannot be, they end the process as before.
    pub(crate) fn watch() -> Interrupt {
        let noted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first time, nothing is noted yet when it is asked whether to end at once.
            let both = flag::register_conditional_shutdown(signal, AT_ONCE, noted.clone())
                .and_then(|_| flag::register(signal, noted.clone()));
            drop(both);
        }
        Interrupt(noted)
    }

    /// Whether one came.
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The note itself, for a loop that is not of this crate.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}
