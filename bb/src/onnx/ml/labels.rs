//! Labels to other labels, by looking them up.

use super::texts;
use crate::error::NodePart;
use crate::ext::{HostKernel, Ops};
use crate::onnx::call::{Call, OpResult};
use crate::onnx::infer;
use crate::onnx::rows::operators;
use crate::{DataType, Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::op::{Param, take};
use bb_ir::{TensorData, memory};
use std::borrow::Cow;
use std::collections::HashMap;

operators! {
    "ai.onnx.ml" {
        CategoryMapper => HostByDefault(category_mapper), infer: By(infer::ml::labels);
        LabelEncoder: 1 => HostByDefault(label_encoder_by_position), 2 => HostByDefault(label_encoder), infer: By(infer::ml::labels);
    }
}

/// What is found, and what else.
struct Lookup {
    keys: TensorData,
    /// One value for each key, and at the end that of what is no key.
    values: TensorData,
}

/// Makes a tensor of strings, and one more.
fn strings(list: &[&str], last: &str) -> Result<TensorData, Error> {
    let all: Vec<&str> = list.iter().copied().chain([last]).collect();
    Ok(TensorData::strings(&[all.len()], &all)?)
}

/// Makes a tensor of elements, and one more.
fn elements<T: bb_ir::Element>(list: &[T], last: T) -> Result<TensorData, Error> {
    let all: Vec<T> = list.iter().copied().chain([last]).collect();
    Ok(TensorData::new(&[all.len()], &all)?)
}

/// Looks elements up.
fn looked_up<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>, lookup: &Lookup) -> OpResult<B> {
    let x = call.input(0)?;
    let (keys, values) = (&lookup.keys, &lookup.values);
    if x.dtype() != keys.dtype() {
        let problem = format!("is {}, but its keys are {}", x.dtype(), keys.dtype());
        return Err(call.wrong(NodePart::Operand(0), problem).into());
    }
    if values.len() != keys.len() + 1 {
        let problem = format!("are {} for {} values", keys.len(), values.len().saturating_sub(1));
        return Err(call.wrong(NodePart::other("keys"), problem).into());
    }
    let params = [Param::Data(Cow::Borrowed(keys)), Param::Data(Cow::Borrowed(values))];
    let result = [(values.dtype(), x.shape().into())];
    Ok(on.on_host(&LOOK_UP, &[Some(x)], &params, &result)?.into_iter().map(Some).collect())
}

/// `LabelEncoder` from opset 2 on: by keys.
pub(in crate::onnx) fn label_encoder<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let tensor = |name| call.tensor_attribute(name);
    let keys = if let Some(keys) = tensor("keys_tensor")? {
        keys.clone()
    } else if let Some(list) = texts(call, "keys_strings")? {
        TensorData::strings(&[list.len()], &list).map_err(Error::from)?
    } else if let Some(list) = call.ints("keys_int64s")? {
        TensorData::new(&[list.len()], list).map_err(Error::from)?
    } else if let Some(list) = call.floats("keys_floats")? {
        TensorData::new(&[list.len()], list).map_err(Error::from)?
    } else {
        return Err(call.wrong("keys_*", "are missing, in all their forms").into());
    };
    let values = if let Some(values) = tensor("values_tensor")? {
        with_default(call, values, tensor("default_tensor")?)?
    } else if let Some(list) = texts(call, "values_strings")? {
        strings(&list, call.text_or("default_string", "_Unused")?)?
    } else if let Some(list) = call.ints("values_int64s")? {
        elements(list, call.int_or("default_int64", -1)?)?
    } else if let Some(list) = call.floats("values_floats")? {
        elements(list, call.float_or("default_float", -0.0)? as f32)?
    } else {
        return Err(call.wrong("values_*", "are missing, in all their forms").into());
    };
    looked_up(on, call, &Lookup { keys, values })
}

/// Puts the default at the end of values that are a tensor.
fn with_default<T>(
    call: &Call<'_, T>,
    values: &TensorData,
    default: Option<&TensorData>,
) -> Result<TensorData, Error> {
    if values.dtype() == DataType::String {
        let list: Vec<&str> = values.iter_str().collect();
        return strings(&list, default.and_then(|d| d.str_at(0)).unwrap_or("_Unused"));
    }
    let fallback;
    let default = match default {
        Some(default) => default,
        None => {
            let number = if values.dtype().is_float() { -0.0 } else { -1.0 };
            fallback = cast(&TensorData::scalar(number), values.dtype(), Rounding::default())?;
            &fallback
        }
    };
    if default.dtype() != values.dtype() || default.len() != 1 {
        let problem = format!("is {default:?}, expected one {}", values.dtype());
        return Err(call.wrong("default_tensor", problem));
    }
    let mut bytes = memory::room("LabelEncoder", values.byte_len() + default.byte_len())?;
    bytes.extend_from_slice(values.bytes());
    bytes.extend_from_slice(default.bytes());
    Ok(TensorData::adopt(values.dtype(), &[values.len() + 1], bytes.into())?)
}

/// `LabelEncoder` of opset 1: strings to their positions in a list, and back.
pub(in crate::onnx) fn label_encoder_by_position<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
) -> OpResult<B> {
    let list = texts(call, "classes_strings")?.unwrap_or_default();
    let positions: Vec<i64> = (0..list.len() as i64).collect();
    both_ways(on, call, &list, &positions)
}

/// `CategoryMapper`: strings to numbers, and back.
pub(in crate::onnx) fn category_mapper<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let list = texts(call, "cats_strings")?.unwrap_or_default();
    both_ways(on, call, &list, call.ints("cats_int64s")?.unwrap_or_default())
}

/// Maps strings to integers or integers to strings, whichever comes.
fn both_ways<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    texts: &[&str],
    numbers: &[i64],
) -> OpResult<B> {
    let lookup = if call.input(0)?.dtype() == DataType::String {
        let keys = TensorData::strings(&[texts.len()], texts).map_err(Error::from)?;
        Lookup { keys, values: elements(numbers, call.int_or("default_int64", -1)?)? }
    } else {
        let keys = TensorData::new(&[numbers.len()], numbers).map_err(Error::from)?;
        Lookup { keys, values: strings(texts, call.text_or("default_string", "_Unused")?)? }
    };
    looked_up(on, call, &lookup)
}

/// The value of each element's key; of two keys that are equal, the later counts. NaN is a key like any other.
static LOOK_UP: HostKernel = HostKernel {
    name: "look_up",
    random: false,
    run: |inputs, params| {
        let [x] = crate::ext::host::operands("look_up", inputs)?;
        let (keys, values) = (take::Data("look_up", params.first())?, take::Data("look_up", params.get(1))?);
        const OP: &str = "look_up";
        let found = if x.dtype() == DataType::I64 {
            let places = IntPlaces::new(keys.as_slice::<i64>()?)?;
            memory::collected(OP, x.as_slice::<i64>()?.iter().map(|&key| places.of(key)))?
        } else {
            let (known, asked) = (comparable(keys)?, comparable(x)?);
            let mut places: HashMap<&[u8], usize> = HashMap::new();
            let room = places.try_reserve(keys.len());
            room.map_err(|_| bb_ir::Error::Memory {
                op: OP,
                bytes: keys.len() * size_of::<(&[u8], usize)>(),
            })?;
            places.extend(parts(&known, OP)?.into_iter().zip(0..));
            let asked = parts(&asked, OP)?;
            memory::collected(OP, asked.iter().map(|key| places.get(key).copied().unwrap_or(keys.len())))?
        };
        if values.dtype() == DataType::String {
            let texts: Vec<&str> = memory::collected(OP, values.iter_str())?;
            let found = found.iter().filter_map(|&i| texts.get(i).copied());
            return Ok(vec![TensorData::strings(x.shape(), &memory::collected::<&str>(OP, found)?)?]);
        }
        let size = values.dtype().bits() / 8;
        let mut bytes: Vec<u8> = memory::room(OP, found.len().saturating_mul(size))?;
        for i in found {
            bytes.extend_from_slice(values.bytes().get(i * size..(i + 1) * size).unwrap_or_default());
        }
        Ok(vec![TensorData::adopt(values.dtype(), x.shape(), bytes.into())?])
    },
};

/// Integers in order, with their positions in a list; of equal ones the last.
struct IntPlaces {
    sorted: Vec<(i64, usize)>,
    /// The length of the list.
    len: usize,
}

impl IntPlaces {
    /// The number of keys up to which looking at all is faster than halving.
    const FEW: usize = 8;

    fn new(keys: &[i64]) -> Result<IntPlaces, Error> {
        let mut sorted: Vec<(i64, usize)> =
            memory::collected("look_up", keys.iter().copied().zip(0..keys.len()))?;
        // Of equal keys the later goes first, and is the one that is kept.
        sorted.sort_unstable_by_key(|&(key, place)| (key, std::cmp::Reverse(place)));
        sorted.dedup_by_key(|(key, _)| *key);
        Ok(IntPlaces { sorted, len: keys.len() })
    }

    /// Returns the position of a key, or the length of the list.
    fn of(&self, key: i64) -> usize {
        let found = if self.sorted.len() <= IntPlaces::FEW {
            self.sorted.iter().find(|(known, _)| *known == key)
        } else {
            let at = self.sorted.binary_search_by_key(&key, |(known, _)| *known).ok();
            at.and_then(|at| self.sorted.get(at))
        };
        found.map_or(self.len, |(_, place)| *place)
    }
}

/// The elements in a form whose bytes are equal where elements are: zeros have one sign, NaN one form.
fn comparable(x: &TensorData) -> Result<TensorData, Error> {
    if !x.dtype().is_float() {
        return Ok(x.clone());
    }
    let wide = cast(x, DataType::F64, Rounding::default())?;
    // The sum makes a negative zero positive.
    let one_form = |&v: &f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
    let elements = memory::collected("look_up", wide.as_slice::<f64>()?.iter().map(one_form))?;
    Ok(TensorData::new(x.shape(), &elements)?)
}

/// The bytes of each element.
fn parts<'a>(x: &'a TensorData, op: &'static str) -> Result<Vec<&'a [u8]>, Error> {
    Ok(match x.dtype() {
        DataType::String => memory::collected(op, x.iter_str().map(str::as_bytes))?,
        dtype => memory::collected(op, x.bytes().chunks((dtype.bits() / 8).max(1)))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More keys than are looked at one by one, and some twice: the later counts.
    #[test]
    fn integers_are_found_at_their_last_position() {
        for count in [0i64, 1, 5, 40] {
            let keys: Vec<i64> = (0..count).map(|i| i * i % 17 * 1_000_003 - 5).collect();
            let places = IntPlaces::new(&keys).expect("memory");
            for key in keys.iter().copied().chain([0, i64::MIN, i64::MAX]) {
                let want = keys.iter().rposition(|known| *known == key).unwrap_or(keys.len());
                assert_eq!(places.of(key), want, "{count} {key}");
            }
        }
    }
}
