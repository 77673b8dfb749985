//! The model of the definition: what a small model computes, in `f64` by plain loops.
#![allow(dead_code, reason = "each program of tests uses a part")]

use super::tiny::{BASE, EPSILON, Tiny};
use bb_generate::gguf::Gguf;
use bb_generate::{Generator, OpenOptions, Products};
use std::path::PathBuf;

/// A file that is removed with the value.
pub(crate) struct File(pub(crate) PathBuf);

impl File {
    pub(crate) fn of(tiny: &Tiny, name: &str) -> File {
        let path = std::env::temp_dir().join(format!("bb-generate-{}-{name}.gguf", std::process::id()));
        std::fs::write(&path, tiny.writer().bytes()).unwrap();
        File(path)
    }

    pub(crate) fn open(&self, backend: &str) -> Generator {
        self.open_with(backend, &OpenOptions::default().with_products(Products::Floats))
    }

    pub(crate) fn open_with(&self, backend: &str, options: &OpenOptions) -> Generator {
        Generator::open(&self.0, &bb::backend(backend).unwrap(), options).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A matrix in `f64`, row by row.
struct Rows {
    inner: usize,
    numbers: Vec<f64>,
}

impl Rows {
    fn row(&self, i: usize) -> &[f64] {
        &self.numbers[i * self.inner..(i + 1) * self.inner]
    }

    fn times(&self, x: &[f64]) -> Vec<f64> {
        let dot = |row: &[f64]| row.iter().zip(x).map(|(a, b)| a * b).sum();
        self.numbers.chunks(self.inner).map(dot).collect()
    }
}

/// The model of the definition.
pub(crate) struct Definition {
    tiny: Tiny,
    file: Gguf,
    /// Whether each key and each value is rounded to 8 bits.
    rounds: bool,
}

impl Definition {
    pub(crate) fn new(tiny: &Tiny) -> Definition {
        let file = Gguf::read(tiny.writer().bytes().into()).unwrap();
        Definition { tiny: tiny.clone(), file, rounds: false }
    }

    /// The model with keys and values that are rounded to 8 bits.
    pub(crate) fn rounded(tiny: &Tiny) -> Definition {
        Definition { rounds: true, ..Definition::new(tiny) }
    }

    /// Rounds a key or a value to multiples of its greatest magnitude divided by 127.
    fn round(&self, x: &mut [f64]) {
        let scale = x.iter().fold(0f64, |most, x| most.max(x.abs())) / 127.0;
        if self.rounds && scale > 0.0 {
            x.iter_mut().for_each(|x| *x = (*x / scale).round_ties_even() * scale);
        }
    }

    fn rows(&self, name: &str) -> Rows {
        let tensor = self.file.tensor(name).unwrap();
        let numbers = tensor.dequantize().unwrap().into_iter().map(f64::from).collect();
        Rows { inner: tensor.extents()[0] as usize, numbers }
    }

    fn norm(&self, x: &[f64], name: &str) -> Vec<f64> {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let factor = 1.0 / (mean + f64::from(EPSILON)).sqrt();
        x.iter().zip(self.rows(name).numbers).map(|(x, w)| x * factor * w).collect()
    }

    /// Whether a layer turns heads: of SmolLM3's, each fourth does not.
    fn turns(&self, layer: usize) -> bool {
        self.tiny.architecture != "smollm3" || layer % 4 != 3
    }

    /// Turns a head in place. Neighbours are a pair for llama and SmolLM3; for others an element of each half.
    fn turn(&self, x: &mut [f64], position: usize) {
        let half = x.len() / 2;
        for i in 0..half {
            let angle = position as f64 * f64::from(BASE).powf(-2.0 * i as f64 / x.len() as f64);
            let (sin, cos) = angle.sin_cos();
            let neighbours = matches!(self.tiny.architecture, "llama" | "smollm3");
            let (a, b) = if neighbours { (2 * i, 2 * i + 1) } else { (i, i + half) };
            (x[a], x[b]) = (x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin);
        }
    }

    fn heads(&self, x: &[f64], layer: usize, what: &str, rotated: bool, position: usize) -> Vec<Vec<f64>> {
        let name = |rest: &str| format!("blk.{layer}.{what}{rest}");
        let mut y = self.rows(&name(".weight")).times(x);
        if self.tiny.biases {
            y.iter_mut().zip(self.rows(&name(".bias")).numbers).for_each(|(y, b)| *y += b);
        }
        let mut heads: Vec<Vec<f64>> = y.chunks(self.tiny.size()).map(<[f64]>::to_vec).collect();
        for head in &mut heads {
            if rotated && self.tiny.head_norms {
                *head = self.norm(head, &name("_norm.weight"));
            }
            if rotated && self.turns(layer) {
                self.turn(head, position);
            }
        }
        heads
    }

    /// The logits behind each token.
    pub(crate) fn logits(&self, tokens: &[u32]) -> Vec<Vec<f64>> {
        let head = match self.tiny.tied {
            true => self.rows("token_embd.weight"),
            false => self.rows("output.weight"),
        };
        self.states(tokens).iter().map(|x| head.times(x)).collect()
    }

    /// The most probable tokens behind a prompt, one by one.
    pub(crate) fn greedy(&self, prompt: &[u32], count: usize) -> Vec<u32> {
        let mut tokens = prompt.to_vec();
        for _ in 0..count {
            let logits = self.logits(&tokens).pop().unwrap();
            let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
            tokens.push(best as u32);
        }
        tokens.split_off(prompt.len())
    }

    /// The state of each token that logits are made of.
    pub(crate) fn states(&self, tokens: &[u32]) -> Vec<Vec<f64>> {
        let tiny = &self.tiny;
        let embedding = self.rows("token_embd.weight");
        let mut xs: Vec<Vec<f64>> = tokens.iter().map(|&t| embedding.row(t as usize).to_vec()).collect();
        if tiny.architecture == "gemma" {
            xs.iter_mut().flatten().for_each(|x| *x *= (tiny.width as f64).sqrt());
        }
        for layer in 0..tiny.layers {
            let name = |what: &str| format!("blk.{layer}.{what}.weight");
            let normal: Vec<Vec<f64>> = xs.iter().map(|x| self.norm(x, &name("attn_norm"))).collect();
            let all = |what: &str, rotated: bool| -> Vec<Vec<Vec<f64>>> {
                normal.iter().enumerate().map(|(p, x)| self.heads(x, layer, what, rotated, p)).collect()
            };
            let (q, mut k, mut v) = (all("attn_q", true), all("attn_k", true), all("attn_v", false));
            k.iter_mut().chain(&mut v).flatten().for_each(|x| self.round(x));
            let output = self.rows(&name("attn_output"));
            let (gate, up, down) =
                (self.rows(&name("ffn_gate")), self.rows(&name("ffn_up")), self.rows(&name("ffn_down")));
            for p in 0..xs.len() {
                let mut attended = Vec::new();
                for (head, q) in q[p].iter().enumerate() {
                    let group = head / (tiny.heads / tiny.groups);
                    let from = tiny.window.map_or(0, |window| (p + 1).saturating_sub(window as usize));
                    let weights: Vec<f64> = (from..=p)
                        .map(|t| {
                            let dot: f64 = q.iter().zip(&k[t][group]).map(|(a, b)| a * b).sum();
                            (dot / (tiny.size() as f64).sqrt()).exp()
                        })
                        .collect();
                    let sum: f64 = weights.iter().sum();
                    let average =
                        |i: usize| (from..=p).map(|t| weights[t - from] / sum * v[t][group][i]).sum::<f64>();
                    attended.extend((0..tiny.size()).map(average));
                }
                for (x, y) in xs[p].iter_mut().zip(output.times(&attended)) {
                    *x += y;
                }
                let normal = self.norm(&xs[p], &name("ffn_norm"));
                let gated = gate.times(&normal).into_iter().zip(up.times(&normal)).map(|(g, u)| {
                    if tiny.architecture == "gemma" {
                        let inner = (2.0 / std::f64::consts::PI).sqrt() * (g + 0.044_715 * g.powi(3));
                        0.5 * g * (1.0 + inner.tanh()) * u
                    } else {
                        g / (1.0 + (-g).exp()) * u
                    }
                });
                for (x, y) in xs[p].iter_mut().zip(down.times(&gated.collect::<Vec<_>>())) {
                    *x += y;
                }
            }
        }
        xs.iter().map(|x| self.norm(x, "output_norm.weight")).collect()
    }
}
