//! Which process of a launch this is, from the variables that the launcher sets.

/// This process among those that a launcher has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Its number, from 0.
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
    /// Its number among those of its host, which selects the GPU.
    pub local: usize,
}

/// Why the launcher's variables do not say which process this is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// One variable of a launcher without the others.
    #[error("{found} is set and {name} is not: both are needed to know which process this is")]
    Missing {
        /// The variable that is not set.
        name: &'static str,
        /// One of the same launcher that is.
        found: &'static str,
    },
    /// A value that is not a number.
    #[error("{name} = {value:?} is not a number of processes")]
    NotANumber {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A rank beyond the number of processes.
    #[error("{name} = {rank}, but there are {size} processes, numbered from 0")]
    Outside {
        /// The variable of the rank.
        name: &'static str,
        /// Its value.
        rank: usize,
        /// The number of processes.
        size: usize,
    },
}

/// Rank, number of processes and rank on the host, of each launcher. The first launcher that has set a rank is taken:
/// under `mpirun` or `torchrun` inside an allocation of Slurm, Slurm's own variables describe the process that started
/// the launcher.
const LAUNCHERS: [[&str; 3]; 4] = [
    ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"],
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
];

impl Launch {
    /// A single process.
    pub const ALONE: Launch = Launch { rank: 0, size: 1, local: 0 };

    /// Reads the variables of `torchrun`, Open MPI's `mpirun`, launchers with a process manager interface (PMI), and `srun`. A
    /// process without any of them is [`Launch::ALONE`]. Without the rank on the host, the host counts as the only one.
    pub fn from_env() -> Result<Launch, LaunchError> {
        Launch::read(|name| std::env::var(name).ok())
    }

    /// The same from any variables.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Launch, LaunchError> {
        let number = |name: &'static str| match variable(name) {
            None => Ok(None),
            Some(value) => match value.trim().parse::<usize>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(LaunchError::NotANumber { name, value }),
            },
        };
        for [rank_name, size_name, local_name] in LAUNCHERS {
            let Some(rank) = number(rank_name)? else { continue };
            let size = number(size_name)?.ok_or(LaunchError::Missing { name: size_name, found: rank_name })?;
            let local = number(local_name)?.unwrap_or(rank);
            if rank >= size {
                return Err(LaunchError::Outside { name: rank_name, rank, size });
            }
            return Ok(Launch { rank, size, local });
        }
        Ok(Launch::ALONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Launch, LaunchError> {
        Launch::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn every_launcher_is_understood() {
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1"), ("SLURM_LOCALID", "0")];
        assert_eq!(read(&[]), Ok(Launch::ALONE));
        for names in LAUNCHERS {
            let variables: Vec<_> = names.into_iter().zip(["5", "8", "1"]).collect();
            assert_eq!(read(&variables), Ok(Launch { rank: 5, size: 8, local: 1 }), "{names:?}");
            // One host, if no variable describes the hosts.
            assert_eq!(read(&variables[..2]), Ok(Launch { rank: 5, size: 8, local: 5 }));
            assert!(matches!(read(&variables[..1]), Err(LaunchError::Missing { .. })));
            if names[0] != "SLURM_PROCID" {
                let inside = [&slurm[..], &variables].concat();
                assert_eq!(read(&inside), Ok(Launch { rank: 5, size: 8, local: 1 }), "{names:?} inside Slurm");
            }
        }
        let words = read(&[("RANK", "one"), ("WORLD_SIZE", "2")]).unwrap_err().to_string();
        assert_eq!(words, "RANK = \"one\" is not a number of processes");
        let words = read(&[("RANK", "2"), ("WORLD_SIZE", "2")]).unwrap_err().to_string();
        assert_eq!(words, "RANK = 2, but there are 2 processes, numbered from 0");
    }
}
