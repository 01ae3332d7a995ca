//! The report of a run: one record for each subject and metric.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One figure of a run, as written to JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The scenario's name.
    pub scenario: Cow<'static, str>,
    /// The subject's name.
    pub subject: Cow<'static, str>,
    /// The name of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: Cow<'static, str>,
    /// The median of the rounds.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
    /// The number of rounds.
    pub rounds: usize,
    /// The subject that the ratio refers to.
    pub baseline: Cow<'static, str>,
    /// This subject's median divided by the baseline's.
    pub ratio: f64,
    /// Parameters of the run: machine, revision, scale.
    pub params: BTreeMap<Cow<'static, str>, String>,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self
            .params
            .get("threads")
            .map(|threads| format!("{threads} threads"));
        let setting = threads
            .or_else(|| self.params.get("degree").cloned())
            .unwrap_or_default();
        write!(
            f,
            "{:20} {:12} {:>10} {:26} {:>10.3} {:8} ({:.3} to {:.3}), {:.2} of {}",
            self.scenario,
            self.subject,
            setting,
            self.metric,
            self.median,
            self.unit,
            self.min,
            self.max,
            self.ratio,
            self.baseline
        )
    }
}

/// One figure of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The name of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: Cow<'static, str>,
    /// The value.
    pub value: f64,
}

impl Figure {
    /// Creates a figure.
    pub fn new(metric: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self {
            metric: metric.into(),
            unit: Cow::Borrowed(unit),
            value,
        }
    }
}
