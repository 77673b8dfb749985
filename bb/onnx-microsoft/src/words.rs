//! `WordConvEmbedding`: computes a vector for each word by a convolution over its letters.

use super::only;
use bb_core::error::NodePart;
use bb_core::ext::{ConvOptions, Extent, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{DataType, Tensor};
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_onnx::shared::operators;

operators! {
    "com.microsoft" {
        WordConvEmbedding => Primitives(word_conv_embedding), infer: By(word_conv_embedding_types);
    }
}

/// Infers the type of `WordConvEmbedding`: a vector for each word.
fn word_conv_embedding_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || Some(vec![at.dims(0)?.first()?.clone(), at.dims(1)?.first()?.clone()]);
    at.one(at.dtype(1), shape())
}

/// `WordConvEmbedding`: converts letters `[words, length]`, where 0 ends a word, to `[words, filters]`, the maximum of each
/// filter over the word. A word without letters has zeros.
pub(crate) fn word_conv_embedding(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["char_embedding_size", "conv_window_size", "embedding_size"])?;
    let (letters, w, table) = (call.input(0)?, call.input(1)?, call.input(3)?);
    let (&[filters, 1, window, size], 2, 2) = (w.shape(), letters.rank(), table.rank()) else {
        let problem = format!(
            "have the shapes {:?}, {:?} and {:?}, expected [words, length], [filters, 1, window, size] and [letters, size]",
            letters.shape(),
            w.shape(),
            table.shape()
        );
        return Err(call.wrong(NodePart::other("letters, filters and table"), problem).into());
    };
    for (name, own) in
        [("embedding_size", filters), ("conv_window_size", window), ("char_embedding_size", size)]
    {
        let given = call.int_or(name, own as i64)?;
        if usize::try_from(given) != Ok(own) {
            return Err(call.wrong(name, format!("is {given}; the filters have {own}")).into());
        }
    }
    let extents = on.extents(letters);
    let (count, length) = (on.extent(letters, 0), on.extent(letters, 1));
    if window == 0 || !length.at_least(&Extent::from(window)) {
        let problem = format!("has words of {length} letters; a window has {window}");
        return Err(call.wrong(NodePart::Operand(0), problem).into());
    }
    let (zero, step) = (Extent::from(0i64), Extent::from(1i64));
    let letters = math::to(on, letters, DataType::I64)?;
    // The index of the first 0 in each word, or the length if there is none.
    let places = on.expand_to(&on.iota(&zero, &step, &length)?, &extents)?;
    let beyond = on.expand_to(&on.ints_of(&[1, 1], std::slice::from_ref(&length))?, &extents)?;
    let is_letter = on.greater(&letters, &on.scalar_like(&letters, 0.0)?)?;
    let own = on.reduce_min(&on.r#where(&is_letter, &beyond, &places)?, &[1], true)?;
    // The shape is `[words, filters, windows, 1]`.
    let spelled = on.unsqueeze(&on.gather(table, &letters, 0)?, &[1])?;
    let y = on.tanh(&on.conv(&spelled, w, Some(call.input(2)?), ConvOptions::default())?)?;
    // Only windows inside the word count; if the word is shorter than a window, the first window counts.
    let windows = length.minus(&Extent::from(window)).plus(&step);
    let first = on.iota(&zero, &step, &windows)?;
    let last = on.sub(&own, &on.host(&[], &[window as i64])?)?;
    let counts = on.less_or_equal(&first, &on.maximum(&last, &on.scalar_like(&last, 0.0)?)?)?;
    let counts = on.reshape_to(&counts, &[count.clone(), step.clone(), windows, step])?;
    let none = on.scalar_like(&y, f64::NEG_INFINITY)?;
    let greatest = on.reduce_max(&on.r#where(&counts, &y, &none)?, &[2, 3], false)?;
    let is_word = on.greater(&own, &on.scalar_like(&own, 0.0)?)?;
    Ok(one(on.r#where(&is_word, &greatest, &on.scalar_like(&greatest, 0.0)?)?))
}
