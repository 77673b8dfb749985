//! Embeddings: the mean of the last hidden states of a text's tokens, normalized to length 1.

use super::events::{Telling, Told};
use super::request::{EmbeddingFields, Embeddings, wrong};
use super::text::{other, prompts};
use super::{Asked, Counted, Parsed, Result, held, read};
use crate::connections::Connection;
use crate::held_bytes::Lease;
use crate::http::json::Object;
use crate::infer::Shared;
use crate::language::Language;
use crate::refusal::Refusal;
use axum::extract::{Request, State};
use axum::response::Response;
use bb_generate::{Event, Pooling};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;

/// The number of bytes of an embedding's element as JSON, until the answer is written.
const NUMBER: usize = 48;

pub(super) async fn embed(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response> {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let asked = read(&shared, request, parse).await.inspect_err(|refused| other(&shared, refused))?;
    let counted = Counted::new(&asked.model, asked.start);
    let _computing = connection.as_ref().map(Connection::computing);
    counted.ended(embedded(asked).await)
}

fn parse(json: &[u8], shared: &Shared) -> Parsed<Embeddings> {
    let Object(fields): Object<EmbeddingFields<'_>> = serde_json::from_slice(json).map_err(Refusal::Json)?;
    let model = shared.languages.find(&fields.model)?.clone();
    let read = fields.embeddings(&model);
    Ok((model, read))
}

async fn embedded(asked: Asked<Embeddings>) -> Result<Response> {
    let Asked { model, body, lease, deadline, .. } = asked;
    let Embeddings { inputs, packed, dimensions } = body?;
    let texts = prompts(&model, inputs, true, deadline, &lease).await?;
    let used: usize = texts.iter().map(Vec::len).sum();
    let mut vectors = Vec::with_capacity(texts.len());
    for text in texts {
        // Awaits one text after another. The engine batches each with the requests of other clients.
        let state = state(&model, text, &lease);
        let state = tokio::time::timeout_at(deadline.into(), state).await;
        let state = normalized(state.map_err(|_| Refusal::Deadline)??);
        if dimensions.is_some_and(|count| count != state.len()) {
            return Err(wrong("dimensions", "as many as the model has, or none").into());
        }
        lease.grow(state.len() * NUMBER)?;
        vectors.push(state);
    }
    let embedding = |(index, state): (usize, &Vec<f32>)| {
        let embedding = if packed { Json::from(base64(state)) } else { Json::from(state.as_slice()) };
        json!({ "object": "embedding", "index": index, "embedding": embedding })
    };
    let all: Vec<Json> = vectors.iter().enumerate().map(embedding).collect();
    let usage = json!({ "prompt_tokens": used, "total_tokens": used });
    held(&json!({ "object": "list", "model": model.name, "data": all, "usage": usage }), &lease)
}

/// Computes the pooled hidden state of a text.
async fn state(
    model: &Language,
    text: Vec<u32>,
    lease: &Arc<Lease>,
) -> std::result::Result<Vec<f32>, Refusal> {
    let (to, mut events) = unbounded_channel::<Told>();
    let telling = Telling::new(0, to, lease.clone());
    model.embed(text, Pooling::Mean, Box::new(telling)).await?;
    while let Some(Told { event, .. }) = events.recv().await {
        match event? {
            Event::Embedding(state) => return Ok(state),
            Event::Failed(source) => return Err(Refusal::Generation { model: model.name.clone(), source }),
            _ => {}
        }
    }
    Err(model.ended())
}

/// Scales a vector to length 1.
fn normalized(mut state: Vec<f32>) -> Vec<f32> {
    let length = state.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        state.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
    state
}

/// Encodes the little-endian bytes of floats as Base64.
///
/// Source: RFC 4648, section 4.
fn base64(floats: &[f32]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS.get((bits >> (18 - 6 * at) & 63) as usize).copied().unwrap_or(b'=');
            text.push(char::from(if at <= group.len() { letter } else { b'=' }));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected string is the output of Python's `base64.b64encode(struct.pack("<2f", 1.0, -0.5))`.
    #[test]
    fn floats_are_the_text_of_their_bytes() {
        assert_eq!(base64(&[1.0, -0.5]), "AACAPwAAAL8=");
        assert_eq!(base64(&[1.0]), "AACAPw==");
        assert_eq!(base64(&[]), "");
        assert_eq!(normalized(vec![3.0, 4.0]), [0.6, 0.8]);
        assert_eq!(normalized(vec![0.0]), [0.0]);
    }
}
