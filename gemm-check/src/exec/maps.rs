//! Random arguments of tensor maps, which compare the driver's checks with the interpreter's.

#[cfg(feature = "cuda")]
use ptx_gemm_runtime::cuda::encode_tensor_map;
#[cfg(any(feature = "cuda", test))]
use ptx_gemm_runtime::interp::random_tensor_maps;
use ptx_gemm_runtime::interp::{TensorMap, TensorMapArgs, TensorMapError};
#[cfg(feature = "cuda")]
use ptx_gemm_runtime::{Device, DeviceError, Error};

/// Arguments that only one of the two accepts.
#[derive(Clone, Debug)]
pub struct MapDisagreement {
    /// The arguments.
    pub args: TensorMapArgs,
    /// Why the interpreter rejects them; `None` if only the driver does.
    pub here: Option<TensorMapError>,
}

/// The verdicts of a driver and of the interpreter on the same arguments.
#[derive(Clone, Debug, Default)]
pub struct MapOpinion {
    /// Argument sets.
    pub sets: usize,
    /// Those that both accept.
    pub accepted: usize,
    /// Those that both reject.
    pub refused: usize,
    /// The others.
    pub disagreements: Vec<MapDisagreement>,
}

impl MapOpinion {
    /// Compares the interpreter with a driver, which says whether it accepts a set.
    ///
    /// # Errors
    /// Returns the driver's error if it gives no verdict.
    pub fn of<E>(
        sets: &[TensorMapArgs],
        mut driver: impl FnMut(&TensorMapArgs) -> Result<bool, E>,
    ) -> Result<MapOpinion, E> {
        let mut found = MapOpinion { sets: sets.len(), ..MapOpinion::default() };
        for args in sets {
            match (TensorMap::encode(args), driver(args)?) {
                (Ok(_), true) => found.accepted += 1,
                (Err(_), false) => found.refused += 1,
                (here, _) => found.disagreements.push(MapDisagreement { args: args.clone(), here: here.err() }),
            }
        }
        Ok(found)
    }

    /// Compares the interpreter with a GPU's driver, over as many random sets.
    ///
    /// # Errors
    /// Returns the driver's errors, except for its rejections of a set.
    #[cfg(feature = "cuda")]
    pub fn on_gpu(device: &Device, seed: u64, count: usize) -> Result<MapOpinion, Error> {
        MapOpinion::of(&random_tensor_maps(seed, count), |args| match encode_tensor_map(device, args) {
            Ok(_) => Ok(true),
            // The only error code that the driver has for invalid arguments.
            Err(Error::Device(DeviceError::Driver { call: "cuTensorMapEncodeTiled", .. })) => Ok(false),
            Err(error) => Err(error),
        })
    }

    /// Whether they agree on every set.
    pub fn holds(&self) -> bool {
        self.disagreements.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::{MapOpinion, TensorMap, TensorMapArgs, random_tensor_maps};

    fn with(driver: impl Fn(&TensorMapArgs) -> bool) -> MapOpinion {
        let asked = |args: &TensorMapArgs| Ok::<bool, Infallible>(driver(args));
        let Ok(found) = MapOpinion::of(&random_tensor_maps(1, 1000), asked);
        found
    }

    #[test]
    fn a_driver_that_agrees() {
        let found = with(|args| TensorMap::encode(args).is_ok());
        assert!(found.holds() && found.accepted > 500 && found.refused > 100, "{found:?}");
        assert_eq!(found.sets, found.accepted + found.refused);
    }

    #[test]
    fn disagreements_are_found_in_both_directions() {
        // It accepts every address, and no box that is 256 bytes wide.
        let found = with(|args| {
            let inside = TensorMapArgs { address: 0, ..args.clone() };
            TensorMap::encode(&inside).is_ok() && args.box_dims[0] != 256
        });
        assert!(!found.holds());
        assert_eq!(found.sets, found.accepted + found.refused + found.disagreements.len());
        let refused = |refused: bool| found.disagreements.iter().filter(move |one| one.here.is_some() == refused);
        assert!(refused(true).count() > 0 && refused(false).count() > 0, "{:?}", found.disagreements);
        assert!(refused(true).all(|one| one.args.address >= 1 << 57 || one.args.address % 32 != 0));
        assert!(refused(false).all(|one| one.args.box_dims[0] == 256));
    }
}
