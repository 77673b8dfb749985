//! Draws a roofline plot: the performance of each kernel relative to the peak performance of the backend (Williams, Waterman, Patterson
//! 2009).

use super::peak::Peaks;
use crate::graph::escaped;
use std::fmt::Write;

/// A kernel of a model, with the totals of all its calls.
pub(super) struct Kernel {
    /// The tooltip of the kernel.
    pub(super) name: String,
    pub(super) operation: &'static str,
    pub(super) flops: f64,
    pub(super) bytes: f64,
    pub(super) seconds: f64,
    /// The kernel's share of the time of a run.
    pub(super) share: f64,
}

impl Kernel {
    pub(super) fn intensity(&self) -> f64 {
        self.flops / self.bytes
    }

    pub(super) fn rate(&self) -> f64 {
        self.flops / self.seconds
    }
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 48.0;

/// The rules select the class `roofline`, because a style element applies to the whole page.
const STYLE: &str = "\
.roofline text{font:12px Helvetica,Arial,sans-serif;fill:#333;paint-order:stroke;stroke:#fff;stroke-width:3px}\
.roofline .g{stroke:#e4e6ec}.roofline .r{fill:none;stroke:#445;stroke-width:1.6}.roofline .c{stroke-dasharray:5 4}\
.roofline .k{stroke:#fff;stroke-width:.8;fill-opacity:.75}.roofline .k:hover{stroke:#111;stroke-width:2}";

/// The maximum number of operations in the legend.
const EXPLAINED: usize = 10;

/// Draws the legend with the colours of the operations that take most of the time.
pub(super) fn legend(kernels: &[Kernel]) -> String {
    let mut shares: Vec<(&str, f64)> = Vec::new();
    for kernel in kernels {
        match shares.iter_mut().find(|(operation, _)| *operation == kernel.operation) {
            Some((_, share)) => *share += kernel.share,
            None => shares.push((kernel.operation, kernel.share)),
        }
    }
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let entries = shares.iter().take(EXPLAINED).map(|(operation, _)| {
        let colour = colour(operation);
        format!(r#"<span class="key"><span style="background:{colour}"></span>{}</span>"#, escaped(operation))
    });
    entries.collect()
}

/// A logarithmic axis.
struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Axis {
    /// Creates an axis that begins and ends at powers of ten.
    fn around(least: f64, most: f64, start: f64, end: f64) -> Axis {
        let (from, to) = (least.log10().floor(), most.log10().ceil());
        Axis { from, to: if to > from { to } else { from + 1.0 }, start, end }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.log10() - self.from) / (self.to - self.from);
        self.start + part.clamp(0.0, 1.0) * (self.end - self.start)
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        (self.from as i32..=self.to as i32).map(|power| 10f64.powi(power))
    }
}

/// Draws the kernels whose numbers of operations and bytes are known. Returns `None` if there are none.
pub(super) fn svg(kernels: &[Kernel], peaks: &Peaks) -> Option<String> {
    let kernels: Vec<&Kernel> =
        kernels.iter().filter(|k| k.flops > 0.0 && k.bytes > 0.0 && k.seconds > 0.0).collect();
    let least = |of: fn(&Kernel) -> f64| kernels.iter().map(|k| of(k)).reduce(f64::min);
    let most = |of: fn(&Kernel) -> f64| kernels.iter().map(|k| of(k)).reduce(f64::max);
    let ridge = peaks.flops / peaks.memory;
    let x = Axis::around(
        least(Kernel::intensity)?.min(ridge / 10.0),
        most(Kernel::intensity)?.max(ridge * 10.0),
        LEFT,
        WIDTH - RIGHT,
    );
    // Very short kernels may have very low rates. They are drawn at the bottom, so that they do not stretch the axis.
    let floor = peaks.flops / 1e5;
    let y = Axis::around(
        least(Kernel::rate)?.max(floor),
        most(Kernel::rate)?.max(peaks.flops),
        HEIGHT - BOTTOM,
        TOP,
    );
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _infallible = (|| -> std::fmt::Result {
        writeln!(
            text,
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="roofline" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="roofline"><style>{STYLE}</style>"#
        )?;
        grid(&mut text, &x, &y)?;
        roof(&mut text, &x, &y, peaks.flops, peaks.memory, "r")?;
        if peaks.cache > 1.3 * peaks.memory {
            roof(&mut text, &x, &y, peaks.flops, peaks.cache, "r c")?;
        }
        let mut drawn = kernels.clone();
        drawn.sort_by(|a, b| b.share.total_cmp(&a.share));
        for kernel in &drawn {
            let roof = 100.0 * kernel.rate() / peaks.roof(kernel.intensity());
            writeln!(
                text,
                r#"<circle class="k" cx="{:.1}" cy="{:.1}" r="{:.1}" fill="{}"><title>{}
{:.2} GFLOP/s, {:.3} operations a byte, {:.1} % of the time, {roof:.0} % of the roof of memory</title></circle>"#,
                x.place(kernel.intensity()),
                y.place(kernel.rate()),
                3.0 + 22.0 * kernel.share.clamp(0.0, 1.0).sqrt(),
                colour(kernel.operation),
                escaped(&kernel.name),
                kernel.rate() / 1e9,
                kernel.intensity(),
                100.0 * kernel.share,
            )?;
        }
        writeln!(text, "</svg>")
    })();
    Some(text)
}

fn grid(text: &mut String, x: &Axis, y: &Axis) -> std::fmt::Result {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for value in x.powers() {
        let at = x.place(value);
        writeln!(text, r#"<path class="g" d="M{at:.1} {TOP}V{bottom}"/>"#)?;
        writeln!(text, r#"<text x="{at:.1}" y="{}" text-anchor="middle">{value}</text>"#, bottom + 18.0)?;
    }
    for value in y.powers() {
        let at = y.place(value);
        writeln!(text, r#"<path class="g" d="M{LEFT} {at:.1}H{right}"/>"#)?;
        writeln!(
            text,
            r#"<text x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 8.0,
            at + 4.0,
            value / 1e9
        )?;
    }
    let middle = (LEFT + right) / 2.0;
    writeln!(
        text,
        r#"<text x="{middle:.1}" y="{}" text-anchor="middle">operations a byte</text>"#,
        HEIGHT - 10.0
    )?;
    let (x, y) = (18.0, (TOP + bottom) / 2.0);
    writeln!(
        text,
        r#"<text transform="translate({x} {y:.1}) rotate(-90)" text-anchor="middle">GFLOP/s</text>"#
    )
}

/// Draws the limit that no kernel exceeds with these peak rates.
fn roof(text: &mut String, x: &Axis, y: &Axis, flops: f64, bytes: f64, class: &str) -> std::fmt::Result {
    let ridge = flops / bytes;
    // The line begins at the left or the lower edge of the plot.
    let start = (10f64.powf(y.from) / bytes).max(10f64.powf(x.from));
    writeln!(
        text,
        r#"<path class="{class}" d="M{:.1} {:.1}L{:.1} {:.1}H{:.1}"/>"#,
        x.place(start),
        y.place(start * bytes),
        x.place(ridge),
        y.place(flops),
        WIDTH - RIGHT
    )?;
    let what = if class == "r" { "memory" } else { "caches" };
    let place = (start * ridge).sqrt();
    writeln!(
        text,
        r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{what}, {:.1} GB/s</text>"#,
        x.place(place) - 8.0,
        y.place(place * bytes),
        bytes / 1e9
    )?;
    if class == "r" {
        let (right, above) = (WIDTH - RIGHT - 4.0, y.place(flops) - 6.0);
        writeln!(
            text,
            r#"<text x="{right}" y="{above:.1}" text-anchor="end">products of f32, {:.1} GFLOP/s</text>"#,
            flops / 1e9
        )?;
    }
    Ok(())
}

/// Returns the colour of an operation. It is always the same for an operation.
fn colour(operation: &str) -> String {
    // The hue is an FNV-1a hash of the name, so that similar names get different hues.
    let hash = operation
        .bytes()
        .fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("hsl({} 62% {}%)", hash % 360, 42 + (hash >> 9) % 3 * 7)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const PEAKS: Peaks = Peaks { flops: 100e9, memory: 10e9, cache: 40e9 };

    fn kernel(flops: f64, bytes: f64, seconds: f64) -> Kernel {
        Kernel { name: "a <b>".to_owned(), operation: "matmul", flops, bytes, seconds, share: 0.5 }
    }

    #[test]
    fn the_roof_is_memory_up_to_the_ridge_and_arithmetic_from_there() {
        assert_eq!((PEAKS.roof(1.0), PEAKS.roof(10.0), PEAKS.roof(1000.0)), (10e9, 100e9, 100e9));
    }

    #[test]
    fn axes_end_at_powers_of_ten() {
        let axis = Axis::around(0.3, 200.0, 0.0, 40.0);
        assert_eq!(
            (axis.place(0.1), axis.place(1.0), axis.place(1000.0), axis.place(1e9)),
            (0.0, 10.0, 40.0, 40.0)
        );
        assert_eq!(axis.powers().collect::<Vec<_>>(), [0.1, 1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn kernels_without_figures_are_left_out() {
        let some =
            svg(&[kernel(1e9, 1e8, 0.02), kernel(0.0, 1e6, 1.0), kernel(1e6, 1e6, 0.0)], &PEAKS).unwrap();
        assert_eq!(some.matches("<circle").count(), 1);
        assert!(
            some.contains("a &lt;b&gt;") && some.contains("50.00 GFLOP/s, 10.000 operations a byte"),
            "{some}"
        );
        assert!(some.contains("50 % of the roof of memory"), "{some}");
        assert!(svg(&[kernel(0.0, 0.0, 0.0)], &PEAKS).is_none());
    }

    #[test]
    fn each_operation_is_explained_once_the_slowest_first() {
        let add = Kernel { operation: "add", share: 0.6, ..kernel(1.0, 1.0, 1.0) };
        let text = legend(&[kernel(1.0, 1.0, 1.0), add, Kernel { share: 0.2, ..kernel(1.0, 1.0, 1.0) }]);
        // The two products together take more time than the sum.
        let (product, sum) = (text.find(">matmul<"), text.find(">add<"));
        assert!(product.is_some() && product < sum, "{text}");
        assert_eq!(text.matches("class=\"key\"").count(), 2);
    }
}
