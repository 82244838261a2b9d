//! Medians, percentiles, and two measurements that take turns.

use std::time::{Duration, Instant};

use crate::frame::Failure;

/// The value that `share` of the values (0 to 1) do not exceed; 0 for none.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of a slice in memory")]
    let at = (share * last as f64).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// A figure and its peer, measured in turns.
pub(crate) struct Turns {
    pub(crate) figure: Vec<f64>,
    pub(crate) beside: Vec<f64>,
}

impl Turns {
    /// Runs both `rounds` times, one after the other, after one round that does not count.
    pub(crate) fn take(
        rounds: usize,
        mut figure: impl FnMut() -> Result<f64, Failure>,
        mut beside: impl FnMut() -> Result<f64, Failure>,
    ) -> Result<Turns, Failure> {
        figure()?;
        beside()?;
        let mut turns = Turns { figure: Vec::new(), beside: Vec::new() };
        for _ in 0..rounds {
            turns.figure.push(figure()?);
            turns.beside.push(beside()?);
        }
        Ok(turns)
    }

    /// The median of the rounds' ratios: a slow minute slows both.
    pub(crate) fn ratio(&self) -> f64 {
        let ratios: Vec<f64> = self.figure.iter().zip(&self.beside).map(|(figure, beside)| figure / beside).collect();
        median(&ratios)
    }
}

/// How long `run` takes, in milliseconds.
pub(crate) fn ms(run: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
    let began = Instant::now();
    run()?;
    Ok(as_ms(began.elapsed()))
}

pub(crate) fn as_ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}
