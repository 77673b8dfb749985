//! `#[bb::layer]` on an inherent `impl`.

#[bb::layer]
impl Quiet {
    fn exp(&self) {}
}

struct Quiet;

fn main() {}
