//! Parses the options of requests that are lists or objects.

use super::lists::{each, each_entry, is_list, is_text, read};
use super::request::wrong;
use crate::refusal::Refusal;
use bb_generate::Constraint;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The maximum number of logit biases.
const BIASES: usize = 1024;
/// The maximum size of a stop string, in bytes. Each token of an answer is compared with the stop strings.
const STOP: usize = 4096;
/// The maximum number of stop strings.
const STOPS: usize = 16;

/// Parses the stop strings.
pub(super) fn stops(json: &RawValue) -> Result<Vec<String>, Refusal> {
    let expected = "at most 16 texts of at most 4096 bytes";
    let mut stops: Vec<String> = Vec::new();
    let mut add = |json: &RawValue| {
        if stops.len() == STOPS || !is_text(json) {
            return Err(wrong("stop", expected));
        }
        let stop: Cow<'_, str> = read(json)?;
        if stop.len() > STOP {
            return Err(wrong("stop", expected));
        }
        stops.push(stop.into_owned());
        Ok(())
    };
    if is_list(json) { each(json, add) } else { add(json) }?;
    Ok(stops)
}

/// Parses the biases of logits. If a token occurs several times, its last bias counts.
pub(super) fn biases(json: &RawValue) -> Result<Vec<(u32, f64)>, Refusal> {
    let mut biases: BTreeMap<u32, f64> = BTreeMap::new();
    each_entry(json, |token, bias| {
        let expected = "an object of tokens, as numbers, and biases";
        let token = token.parse().map_err(|_| wrong("logit_bias", expected))?;
        if biases.len() == BIASES && !biases.contains_key(&token) {
            return Err(wrong("logit_bias", "at most 1024 tokens"));
        }
        biases.insert(token, read(bias)?);
        Ok(())
    })?;
    Ok(biases.into_iter().collect())
}

/// Parses the constraint of an answer. Returns `None` if the answer may be any text.
pub(super) fn constraint(format: &RawValue) -> Result<Option<Constraint>, Refusal> {
    #[derive(Deserialize)]
    struct ResponseFormat<'a> {
        #[serde(borrow)]
        r#type: Option<Cow<'a, str>>,
        #[serde(borrow)]
        json_schema: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Schema<'a> {
        #[serde(borrow)]
        schema: Option<&'a RawValue>,
    }
    let expected = "an object whose `type` is `text`, `json_object`, or `json_schema` with the schema as `json_schema.schema`";
    let wrong = || wrong("response_format", expected);
    let object = |json: &RawValue| json.get().starts_with('{');
    if !object(format) {
        return Err(wrong());
    }
    let of: ResponseFormat<'_> = serde_json::from_str(format.get()).map_err(|_| wrong())?;
    match of.r#type.as_deref().ok_or_else(wrong)? {
        "text" => Ok(None),
        "json_object" => Ok(Some(Constraint::JsonObject)),
        "json_schema" => {
            // `strict` has no effect: a schema is either enforced completely or refused.
            let of = of.json_schema.filter(|json| object(json)).ok_or_else(wrong)?;
            let of: Schema<'_> = serde_json::from_str(of.get()).map_err(|_| wrong())?;
            Ok(Some(Constraint::JsonSchema(of.schema.ok_or_else(wrong)?.get().to_owned())))
        }
        _ => Err(wrong()),
    }
}
