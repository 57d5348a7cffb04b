//! Writes the seeds of every target to `corpus/TARGET/`.

use std::fs;
use std::path::Path;

fn main() -> std::io::Result<()> {
    for target in ["schedule", "tile", "ptx", "interpreter"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        for (name, text) in ptx_gemm_fuzz::seeds(target) {
            fs::write(folder.join(name), text)?;
        }
    }
    Ok(())
}
