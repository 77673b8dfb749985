//! A vector index that computes all distances with one matrix product, on any backend.
//!
//! ```text
//! cargo run --release --example vector-search -- [--backend NAME]
//! ```

use bb::{BackendHandle, Error, Value};

use bb_cli as _; // it links the backends of its features

/// Normalised vectors of equal length, which can be searched by cosine similarity.
struct Index {
    backend: BackendHandle,
    /// `[dimensions, vectors]`, so that a product compares a query with every vector.
    columns: Value,
}

/// A vector that was found, and its cosine similarity to the query.
#[derive(Debug, PartialEq)]
struct Hit {
    vector: usize,
    similarity: f32,
}

impl Index {
    /// Indexes `vectors`, whose rows have `dimensions` numbers each.
    fn new(backend: &str, dimensions: usize, vectors: &[f32]) -> Result<Index, Error> {
        let backend = bb::backend(backend)?;
        let rows = backend.tensor(&[vectors.len() / dimensions.max(1), dimensions], vectors)?;
        let columns = normalised(&rows)?.transpose(&[1, 0])?;
        Ok(Index { backend, columns })
    }

    /// Finds the `count` vectors most similar to `query`, best first.
    fn search(&self, query: &[f32], count: usize) -> Result<Vec<Hit>, Error> {
        let query = self.backend.tensor(&[1, query.len()], query)?;
        let similarities = normalised(&query)?.matmul(&self.columns)?;
        let similarities = similarities.to_host(usize::MAX)?;
        let mut hits: Vec<Hit> = similarities
            .as_slice::<f32>()?
            .iter()
            .enumerate()
            .map(|(vector, &similarity)| Hit { vector, similarity })
            .collect();
        hits.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        hits.truncate(count);
        Ok(hits)
    }
}

/// Divides each row by its length.
fn normalised(rows: &Value) -> Result<Value, Error> {
    let squares = (rows * rows)?.reduce_sum(&[1], true)?;
    rows / squares.sqrt()?
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let backend = match (arguments.next().as_deref(), arguments.next()) {
        (Some("--backend"), Some(name)) => name,
        _ => "cpu".to_owned(),
    };
    let words = ["king", "queen", "apple", "pear", "car"];
    let vectors = [0.9, 0.8, 0.1, 0.9, 0.9, 0.1, 0.1, 0.2, 0.9, 0.2, 0.1, 0.8, 0.5, 0.0, 0.2];
    let index = Index::new(&backend, 3, &vectors)?;
    for hit in index.search(&[0.1, 0.1, 1.0], 3)? {
        println!("{:6} {:.3}", words.get(hit.vector).unwrap_or(&"?"), hit.similarity);
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    /// The similarities of (3, 4) to the axes and to itself are 3/5, 4/5 and 1.
    #[test]
    fn finds_by_cosine_on_every_backend() {
        for backend in ["cpu", "reference", "whole-graph"] {
            let index = Index::new(backend, 2, &[1.0, 0.0, 0.0, 2.0, 30.0, 40.0]).unwrap();
            let hits = index.search(&[3.0, 4.0], 3).unwrap();
            assert_eq!(hits.iter().map(|h| h.vector).collect::<Vec<_>>(), [2, 1, 0], "{backend}");
            for (hit, expected) in hits.iter().zip([1.0, 0.8, 0.6]) {
                assert!((hit.similarity - expected).abs() < 1e-6, "{backend}: {hit:?}");
            }
            assert_eq!(index.search(&[1.0, 0.0], 1).unwrap()[0].vector, 0);
        }
    }
}
