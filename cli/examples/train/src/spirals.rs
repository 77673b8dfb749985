//! Generates points on spiral arms, which no straight line separates.

use bb::ext::Mersenne;
use std::f64::consts::TAU;

/// Points in the plane, and the number of the arm that each belongs to.
pub(crate) struct Points {
    /// Two coordinates for each point.
    pub(crate) coordinates: Vec<f32>,
    /// The number of each point's arm.
    pub(crate) labels: Vec<i64>,
}

impl Points {
    /// The number of arms.
    pub(crate) const ARMS: usize = 3;

    /// Draws `count` points of each arm. Equal seeds result in equal points.
    pub(crate) fn new(seed: i64, count: usize) -> Points {
        let mut random = Mersenne::of(Some(seed));
        let mut points = Points { coordinates: Vec::new(), labels: Vec::new() };
        for arm in 0..Points::ARMS {
            for _ in 0..count {
                let radius = 0.1 + 0.9 * random.unit();
                let turn = arm as f64 / Points::ARMS as f64 + 0.6 * radius + 0.015 * random.normal();
                points
                    .coordinates
                    .extend([radius * (TAU * turn).cos(), radius * (TAU * turn).sin()].map(|c| c as f32));
                points.labels.push(arm as i64);
            }
        }
        points
    }
}
