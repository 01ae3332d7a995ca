//! The SB-tree paper (Jung et al., IEEE Access 2025): the inner workings of an SB-tree.

#[cfg(feature = "coherence")]
mod coherence;
mod segment;

use super::scenario::Scenario;
#[cfg(feature = "coherence")]
use crate::subjects::BASELINE;

/// The scenarios of this paper.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "segment",
        about: "what an SB-tree converts, how far it walks, and where the time goes",
        subjects: segment::subjects,
        run: segment::run,
    },
    #[cfg(feature = "coherence")]
    Scenario {
        name: "coherence",
        about: "cache lines that 1 to 64 simulated writers of ascending keys take from one another",
        subjects: || vec![BASELINE],
        run: coherence::run,
    },
];
