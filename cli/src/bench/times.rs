//! The times of runs and their statistics.

use serde_json::json;

/// The times of one or more runs in seconds, in ascending order.
pub(super) struct Times(Vec<f64>);

impl Times {
    pub(super) fn of(mut seconds: Vec<f64>) -> Times {
        seconds.sort_by(f64::total_cmp);
        Times(seconds)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn min(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    pub(super) fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }

    /// Returns a percentile by the nearest-rank method: the smallest time that at least `percent` percent of the runs do not exceed.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Returns the number of consecutive runs per second.
    pub(super) fn per_second(&self) -> f64 {
        1.0 / self.mean()
    }

    pub(super) fn json(&self) -> serde_json::Value {
        json!({
            "min": self.min(), "p50": self.percentile(50), "p90": self.percentile(90), "p99": self.percentile(99),
            "max": self.max(), "mean": self.mean(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let times = Times::of((1..=200).rev().map(f64::from).collect());
        let [p50, p90, p99] = [50, 90, 99].map(|percent| times.percentile(percent));
        assert_eq!((times.min(), p50, p90, p99, times.max()), (1.0, 100.0, 180.0, 198.0, 200.0));
        assert_eq!((times.mean(), times.per_second()), (100.5, 1.0 / 100.5));
        // Half of the four times are at most the second time.
        let times = Times::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((times.percentile(50), times.percentile(90)), (2.0, 4.0));
        let only = Times::of(vec![0.25]);
        assert_eq!((only.percentile(50), only.percentile(99), only.mean()), (0.25, 0.25, 0.25));
    }
}
