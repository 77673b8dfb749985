//! Maps labels to other labels by look-up.

use bb_core::error::NodePart;
use bb_core::ext::HostKernel;
use bb_core::operator::{Call, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_ir::op::{Param, take};
use bb_ir::pace::Pace;
use bb_ir::{TensorData, memory};
use bb_onnx::shared::Folded;
use bb_onnx::shared::operators;
use bb_onnx::shared::{Kept, same};
use std::borrow::Cow;
use std::collections::HashMap;

operators! {
    "ai.onnx.ml" {
        CategoryMapper => HostByDefault(category_mapper), infer: By(label_types);
        LabelEncoder: 1 => HostByDefault(label_encoder_by_position), 2 => HostByDefault(label_encoder), infer: By(label_types);
    }
}

/// The keys of a look-up and their values.
struct Lookup {
    keys: TensorData,
    /// One value for each key, followed by the value for unknown keys.
    values: TensorData,
}

/// Creates a tensor of strings, with one more string at the end.
fn strings<'a>(list: impl IntoIterator<Item = &'a [u8]>, last: &'a [u8]) -> Result<TensorData, Error> {
    let all: Vec<&[u8]> = list.into_iter().chain([last]).collect();
    Ok(TensorData::strings(&[all.len()], &all)?)
}

/// Creates a tensor of elements, with one more element at the end.
fn elements<T: bb_ir::Element>(list: &[T], last: T) -> Result<TensorData, Error> {
    let all: Vec<T> = list.iter().copied().chain([last]).collect();
    Ok(TensorData::new(&[all.len()], &all)?)
}

/// The default value for unknown string keys.
const UNUSED: &[u8] = b"_Unused";

fn default_string<'a, T>(call: &Call<'a, T>) -> Result<&'a [u8], Error> {
    Ok(call.bytes("default_string")?.unwrap_or(UNUSED))
}

/// Replaces each element of operand 0 by the value of its key.
fn looked_up(on: &Tracer, call: &Call<'_, TracedTensor>, lookup: &Lookup) -> OpResult {
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

/// `LabelEncoder` from opset 2 on, which maps by keys.
pub(crate) fn label_encoder(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let tensor = |name| call.tensor_attribute(name);
    let keys = if let Some(keys) = tensor("keys_tensor")? {
        keys.clone()
    } else if let Some(list) = call.texts("keys_strings")? {
        TensorData::strings(&[list.len()], list).map_err(Error::from)?
    } else if let Some(list) = call.ints("keys_int64s")? {
        TensorData::new(&[list.len()], list).map_err(Error::from)?
    } else if let Some(list) = call.floats("keys_floats")? {
        TensorData::new(&[list.len()], list).map_err(Error::from)?
    } else {
        return Err(call.wrong("keys_*", "are missing, in all their forms").into());
    };
    let values = if let Some(values) = tensor("values_tensor")? {
        with_default(call, values, tensor("default_tensor")?)?
    } else if let Some(list) = call.texts("values_strings")? {
        strings(list.iter().map(Vec::as_slice), default_string(call)?)?
    } else if let Some(list) = call.ints("values_int64s")? {
        elements(list, call.int_or("default_int64", -1)?)?
    } else if let Some(list) = call.floats("values_floats")? {
        elements(list, call.float_or("default_float", -0.0)? as f32)?
    } else {
        return Err(call.wrong("values_*", "are missing, in all their forms").into());
    };
    looked_up(on, call, &Lookup { keys, values })
}

/// Appends the default to values that are a tensor.
fn with_default<T>(
    call: &Call<'_, T>,
    values: &TensorData,
    default: Option<&TensorData>,
) -> Result<TensorData, Error> {
    if values.dtype() == DataType::String {
        let default = default.and_then(|default| default.iter_bytes().next());
        return strings(values.iter_bytes(), default.unwrap_or(UNUSED));
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
    bytes.extend_from_slice(values.bytes()?);
    bytes.extend_from_slice(default.bytes()?);
    Ok(TensorData::adopt(values.dtype(), &[values.len() + 1], bytes.into())?)
}

/// Infers the type of `LabelEncoder` and `CategoryMapper`: the type of the values.
fn label_types(at: NodeFacts<'_>) -> Option<Types> {
    let attributes = &at.node.attributes;
    let dtype = if let Ok(Some(values)) = attributes.tensor("values_tensor") {
        Some(values.dtype())
    } else if attributes.get("values_strings").is_some() {
        Some(DataType::String)
    } else if attributes.get("values_int64s").is_some() {
        Some(DataType::I64)
    } else if attributes.get("values_floats").is_some() {
        Some(DataType::F32)
    } else {
        // Without explicit values, strings are mapped to integers, and integers to strings.
        at.dtype(0).map(|from| if from == DataType::String { DataType::I64 } else { DataType::String })
    };
    at.one(dtype, at.same())
}

/// `LabelEncoder` of opset 1: maps strings to their indices in a list, and indices to strings.
pub(crate) fn label_encoder_by_position(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let list = call.texts("classes_strings")?.unwrap_or_default();
    let positions: Vec<i64> = (0..list.len() as i64).collect();
    both_ways(on, call, list, &positions)
}

/// `CategoryMapper`: maps strings to integers, and integers to strings.
pub(crate) fn category_mapper(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let list = call.texts("cats_strings")?.unwrap_or_default();
    both_ways(on, call, list, call.ints("cats_int64s")?.unwrap_or_default())
}

/// Maps strings to integers or integers to strings, depending on the operand's type.
fn both_ways(on: &Tracer, call: &Call<'_, TracedTensor>, texts: &[Vec<u8>], numbers: &[i64]) -> OpResult {
    let lookup = if call.input(0)?.dtype() == DataType::String {
        let keys = TensorData::strings(&[texts.len()], texts).map_err(Error::from)?;
        Lookup { keys, values: elements(numbers, call.int_or("default_int64", -1)?)? }
    } else {
        let keys = TensorData::new(&[numbers.len()], numbers).map_err(Error::from)?;
        Lookup { keys, values: strings(texts.iter().map(Vec::as_slice), default_string(call)?)? }
    };
    looked_up(on, call, &lookup)
}

/// Looks up the value of each element. If two keys are equal, the later one counts. NaN equals NaN here.
static LOOK_UP: HostKernel = HostKernel {
    name: "look_up",
    random: false,
    run: |inputs, params| {
        let [x] = bb_core::ext::host::operands("look_up", inputs)?;
        let (keys, values) = (take::Data("look_up", params.first())?, take::Data("look_up", params.get(1))?);
        const OP: &str = "look_up";
        let fits = |own: &Keys| same(&own.keys, keys);
        let places = KEYS.get(keys.byte_len(), fits, || Keys::new(keys))?;
        let found = match &places.places {
            KeyPlaces::Integers(places) => {
                memory::collected(OP, x.as_slice::<i64>()?.iter().map(|&key| places.of(key)))?
            }
            KeyPlaces::Others(places) => {
                let place = |key: &[u8]| places.get(key).copied().unwrap_or(keys.len());
                if x.dtype() == DataType::String {
                    let mut pace = Pace::new();
                    let texts = x.iter_bytes().inspect(|text| pace.step(text.len() / 8));
                    memory::collected(OP, texts.map(place))?
                } else {
                    let asked = comparable(x)?;
                    memory::collected(OP, elements_of(&asked)?.map(place))?
                }
            }
        };
        if values.dtype() == DataType::String {
            let texts = memory::collected(OP, values.iter_bytes())?;
            let found = found.iter().filter_map(|&i| texts.get(i).copied());
            return Ok(vec![TensorData::strings(x.shape(), &memory::collected::<&[u8]>(OP, found)?)?]);
        }
        let bytes = match values.dtype().bits() / 8 {
            1 => picked::<1>(values.bytes()?, &found)?,
            2 => picked::<2>(values.bytes()?, &found)?,
            4 => picked::<4>(values.bytes()?, &found)?,
            8 => picked::<8>(values.bytes()?, &found)?,
            _ => picked::<16>(values.bytes()?, &found)?,
        };
        Ok(vec![TensorData::adopt(values.dtype(), x.shape(), bytes.into())?])
    },
};

/// Gathers elements of `N` bytes by index. An index out of range gives zeros.
fn picked<const N: usize>(elements: &[u8], places: &[usize]) -> Result<Vec<u8>, Error> {
    let elements = elements.as_chunks::<N>().0;
    let picked = places.iter().map(|&at| elements.get(at).copied().unwrap_or([0; N]));
    Ok(memory::collected::<[u8; N]>("look_up", picked)?.into_flattened())
}

/// The key indices of the models that ran most recently.
static KEYS: Kept<Keys> = Kept::new();

/// The keys of a look-up, with an index of them.
struct Keys {
    keys: TensorData,
    places: KeyPlaces,
}

enum KeyPlaces {
    Integers(IntPlaces),
    /// An index by the bytes of each element.
    Others(HashMap<Box<[u8]>, usize, Folded>),
}

impl Keys {
    fn new(keys: &TensorData) -> Result<Keys, Error> {
        const OP: &str = "look_up";
        if keys.dtype() == DataType::I64 {
            let places = KeyPlaces::Integers(IntPlaces::new(keys.as_slice::<i64>()?)?);
            return Ok(Keys { keys: keys.clone(), places });
        }
        let known = comparable(keys)?;
        // The standard library aborts if it has no memory for an element, so the memory is checked beforehand.
        memory::probe_strings(OP, keys.len(), known.byte_len())?;
        let mut places: HashMap<Box<[u8]>, usize, Folded> = HashMap::default();
        let room = places.try_reserve(keys.len());
        let bytes = keys.len().saturating_mul(size_of::<(Box<[u8]>, usize)>());
        room.map_err(|_| bb_ir::Error::Memory { op: OP, bytes })?;
        let mut pace = Pace::new();
        if keys.dtype() == DataType::String {
            let texts = known.iter_bytes().inspect(|text| pace.step(1 + text.len() / 8));
            places.extend(texts.map(Into::into).zip(0..));
        } else {
            places.extend(elements_of(&known)?.inspect(|_| pace.step(1)).map(Into::into).zip(0..));
        }
        Ok(Keys { keys: keys.clone(), places: KeyPlaces::Others(places) })
    }
}

/// Returns the bytes of each element of a tensor without strings.
fn elements_of(x: &TensorData) -> Result<impl Iterator<Item = &[u8]>, Error> {
    Ok(x.bytes()?.chunks((x.dtype().bits() / 8).max(1)))
}

/// An index of integers to their positions in a list. Of equal integers, the last counts.
enum IntPlaces {
    /// A dense table: `places[i - least]` is the position of the integer `i`. It is used if the integers are
    /// close together.
    Table { least: i64, places: Vec<usize>, len: usize },
    /// The integers in ascending order with their positions, and the length of the list.
    Sorted { sorted: Vec<(i64, usize)>, len: usize },
}

impl IntPlaces {
    fn new(keys: &[i64]) -> Result<IntPlaces, Error> {
        let len = keys.len();
        let bounds = keys.iter().min().zip(keys.iter().max());
        let span = bounds.and_then(|(least, most)| usize::try_from(most.abs_diff(*least)).ok());
        if let (Some((&least, _)), Some(span)) = (bounds, span.filter(|span| *span < 4 * len + 64)) {
            let mut places = memory::filled("look_up", len, span + 1)?;
            let mut pace = Pace::new();
            for (place, key) in keys.iter().enumerate() {
                pace.step(1);
                let at = usize::try_from(key.abs_diff(least)).ok();
                at.and_then(|at| places.get_mut(at)).into_iter().for_each(|slot| *slot = place);
            }
            return Ok(IntPlaces::Table { least, places, len });
        }
        let mut sorted: Vec<(i64, usize)> = memory::collected("look_up", keys.iter().copied().zip(0..len))?;
        // Of equal keys, the later one is sorted first, so that `dedup` keeps it.
        let mut pace = Pace::new();
        sorted.sort_unstable_by(|a, b| {
            pace.step(1);
            a.0.cmp(&b.0).then(b.1.cmp(&a.1))
        });
        sorted.dedup_by_key(|(key, _)| *key);
        Ok(IntPlaces::Sorted { sorted, len })
    }

    /// Returns the position of a key, or the length of the list.
    #[inline]
    fn of(&self, key: i64) -> usize {
        match self {
            IntPlaces::Table { least, places, len } => {
                // A key below `least` wraps to a large number, which is outside of the table.
                let at = usize::try_from(key.wrapping_sub(*least).cast_unsigned());
                at.ok().and_then(|at| places.get(at)).copied().unwrap_or(*len)
            }
            IntPlaces::Sorted { sorted, len } => {
                let at = sorted.binary_search_by_key(&key, |(known, _)| *known).ok();
                at.and_then(|at| sorted.get(at)).map_or(*len, |(_, place)| *place)
            }
        }
    }
}

/// Converts elements so that equal elements have equal bytes: zeros are positive, and NaN has a single bit
/// pattern.
fn comparable(x: &TensorData) -> Result<TensorData, Error> {
    if !x.dtype().is_float() {
        return Ok(x.clone());
    }
    let wide = cast(x, DataType::F64, Rounding::default())?;
    // Adding 0 makes a negative zero positive.
    let one_form = |&v: &f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
    let elements = memory::collected("look_up", wide.as_slice::<f64>()?.iter().map(one_form))?;
    Ok(TensorData::new(x.shape(), &elements)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests dense and sparse keys, some repeated. Of equal keys, the later one counts.
    #[test]
    fn integers_are_found_at_their_last_position() {
        for (count, apart) in [(0i64, 1), (1, 1), (5, 1_000_003), (40, 1_000_003), (40, 3), (40, 1 << 59)] {
            let keys: Vec<i64> =
                (0..count).map(|i| (i * i % 17).wrapping_mul(apart).wrapping_sub(5)).collect();
            let places = IntPlaces::new(&keys).expect("memory");
            for key in keys.iter().copied().chain([0, -6, -4, i64::MIN, i64::MAX]) {
                let want = keys.iter().rposition(|known| *known == key).unwrap_or(keys.len());
                assert_eq!(places.of(key), want, "{count} {key}");
            }
        }
    }
}
