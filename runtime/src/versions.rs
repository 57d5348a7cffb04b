//! The PTX versions that a driver reads.

use crate::error::DeviceError;

type Version = (u32, u32);

/// CUDA versions, and the newest PTX of each (PTX ISA, "Release Notes").
const NEWEST: [(Version, Version); 21] = [
    ((11, 0), (7, 0)),
    ((11, 1), (7, 1)),
    ((11, 2), (7, 2)),
    ((11, 3), (7, 3)),
    ((11, 4), (7, 4)),
    ((11, 5), (7, 5)),
    ((11, 6), (7, 6)),
    ((11, 7), (7, 7)),
    ((11, 8), (7, 8)),
    ((12, 0), (8, 0)),
    ((12, 1), (8, 1)),
    ((12, 2), (8, 2)),
    ((12, 3), (8, 3)),
    ((12, 4), (8, 4)),
    ((12, 5), (8, 5)),
    ((12, 6), (8, 5)),
    ((12, 7), (8, 6)),
    ((12, 8), (8, 7)),
    ((12, 9), (8, 8)),
    ((13, 0), (9, 0)),
    ((13, 1), (9, 1)),
];

/// An error if the driver, by its CUDA version, is known to be older than the PTX. Versions that are not in the table
/// are left to the driver.
pub(crate) fn check(ptx: Version, driver: &str) -> Result<(), DeviceError> {
    match newest(driver) {
        Some(newest) if ptx > newest => Err(too_old(ptx, driver)),
        _ => Ok(()),
    }
}

/// The error with both versions, and the driver that would suffice.
pub(crate) fn too_old(ptx: Version, driver: &str) -> DeviceError {
    let words = |(major, minor): Version| format!("{major}.{minor}");
    let newest = newest(driver).map_or_else(|| "it does not say".into(), words);
    let sufficient = NEWEST.iter().find(|(_, newest)| *newest >= ptx).map(|(cuda, _)| words(*cuda));
    let remedy = match sufficient {
        Some(cuda) => format!("a driver of CUDA {cuda} or newer runs it, and so does a schedule for a lower target"),
        None => "a newer driver is needed, or a schedule for a lower target".into(),
    };
    DeviceError::DriverTooOld { ptx: words(ptx), driver: driver.into(), newest, remedy }
}

/// `None` for drivers newer than the table, and for those that do not report their version.
fn newest(driver: &str) -> Option<Version> {
    let (major, minor) = driver.split_once('.')?;
    let version = (major.parse().ok()?, minor.parse().ok()?);
    if version < NEWEST[0].0 {
        return Some((6, 5));
    }
    NEWEST.iter().find(|(cuda, _)| *cuda == version).map(|(_, newest)| *newest)
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn errors_name_the_versions_of_driver_and_ptx() {
        for (ptx, driver) in
            [((7, 8), "11.8"), ((8, 0), "12.0"), ((7, 0), "13.0"), ((9, 9), "14.2"), ((9, 0), "unknown")]
        {
            assert_eq!(check(ptx, driver), Ok(()), "{ptx:?} {driver}");
        }
        for (ptx, driver, words) in [
            (
                (8, 0),
                "11.8",
                "the PTX is version 8.0; the driver is CUDA 11.8's, which reads versions up to 7.8: a driver of CUDA 12.0 \
                 or newer runs it, and so does a schedule for a lower target",
            ),
            (
                (7, 0),
                "10.2",
                "the PTX is version 7.0; the driver is CUDA 10.2's, which reads versions up to 6.5: a driver of CUDA 11.0 \
                 or newer runs it, and so does a schedule for a lower target",
            ),
        ] {
            assert_eq!(check(ptx, driver).unwrap_err().to_string(), words);
        }
    }
}
