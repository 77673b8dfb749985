//! `MurmurHash3`: hashes of elements, which map features to columns.

use super::only;
use bb_core::ext::HostKernel;
use bb_core::operator::{Call, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_ir::op::{Param, take};
use bb_ir::pace::Pace;
use bb_ir::{TensorData, memory};
use bb_onnx::shared::operators;

operators! {
    "com.microsoft" {
        MurmurHash3 => HostByDefault(murmur_hash3), infer: By(murmur_hash3_types), halves: Moves;
    }
}

static HASH: HostKernel = HostKernel {
    name: "murmur_hash3",
    random: false,
    run: |inputs, params| {
        let [x] = bb_core::ext::host::operands("murmur_hash3", inputs)?;
        const OP: &str = "MurmurHash3";
        let seed = take::Int("murmur_hash3", params.first())? as u32;
        let hashes: Vec<u32> = match x.dtype() {
            DataType::String => {
                let mut pace = Pace::new();
                let texts = x.iter_bytes().inspect(|text| pace.step(text.len() / 4));
                memory::collected(OP, texts.map(|text| hash(text, seed)))?
            }
            dtype => {
                let elements = x.bytes()?.chunks_exact(dtype.bits() / 8);
                memory::collected(OP, elements.map(|bytes| hash(bytes, seed)))?
            }
        };
        Ok(vec![if take::Bool("murmur_hash3", params.get(1))? {
            TensorData::new(x.shape(), &hashes)?
        } else {
            let signed: Vec<i32> = memory::collected(OP, hashes.iter().map(|&hash| hash as i32))?;
            TensorData::new(x.shape(), &signed)?
        }])
    },
};

/// Computes the 32-bit MurmurHash3 for 32-bit machines.
///
/// Source: Appleby: MurmurHash3_x86_32.
fn hash(bytes: &[u8], seed: u32) -> u32 {
    let mixed = |block: u32| block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (blocks, tail) = bytes.as_chunks::<4>();
    let mut hash = seed;
    for block in blocks {
        hash ^= mixed(u32::from_le_bytes(*block));
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let rest = tail.iter().rev().fold(0, |rest, &byte| rest << 8 | u32::from(byte));
    hash ^= mixed(rest) ^ bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Infers the type of `MurmurHash3`: 32-bit integers.
fn murmur_hash3_types(at: NodeFacts<'_>) -> Option<Types> {
    let dtype = if at.int("positive", 1)? == 0 { DataType::I32 } else { DataType::U32 };
    at.one(Some(dtype), at.same())
}

/// `MurmurHash3`: the hash of each element, unsigned if `positive`.
pub(crate) fn murmur_hash3(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    use DataType::{F32, F64, I32, I64, String, U32, U64};
    only(call, &["positive", "seed"])?;
    let x = call.input(0)?;
    if !matches!(x.dtype(), F32 | F64 | I32 | I64 | String | U32 | U64) {
        let error = bb_ir::Error::Unsupported { op: "MurmurHash3", dtype: x.dtype() };
        return Err(Error::from(error).into());
    }
    let positive = call.flag("positive", true)?;
    let params = [Param::Int(call.int_or("seed", 0)?), Param::Bool(positive)];
    let result = [(if positive { U32 } else { I32 }, x.shape().into())];
    Ok(on.on_host(&HASH, &[Some(x)], &params, &result)?.into_iter().map(Some).collect())
}
