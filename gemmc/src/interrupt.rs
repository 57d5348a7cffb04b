//! Ctrl-C in a long command: the first one ends it with what it has so far, the second one at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The exit status of a command that is ended at once, as shells have it: 128 and the number of the signal.
const AT_ONCE: i32 = 128 + SIGINT;

/// Whether the command was asked to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Records Ctrl-C and a request to terminate from now on. Where that is not possible, they end the process as before.
    pub(crate) fn watch() -> Interrupt {
        let noted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: at the first signal, nothing is recorded yet when the handler checks whether to end at once.
            let both = flag::register_conditional_shutdown(signal, AT_ONCE, noted.clone())
                .and_then(|_| flag::register(signal, noted.clone()));
            drop(both);
        }
        Interrupt(noted)
    }

    /// Whether a signal came.
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for a loop in another crate.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}
