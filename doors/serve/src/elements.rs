//! Converts tensor elements from and to the encodings of the protocol: little-endian bytes, length-prefixed strings, and JSON.

use crate::cancel;
use crate::held_bytes::Lease;
use crate::model::Announced;
use crate::refusal::Refusal;
use bb::{DataType, TensorData, bf16, f16};
use bb_ir::convert::{bf16_from_f64, f16_from_f64, f64_to_odd};
use bb_ir::{Element, StringsBuilder};
use bytes::{Bytes, BytesMut};
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::value::RawValue;
use std::fmt;

/// The size in bytes of the length before a string.
const LENGTH: usize = 4;

/// The number of JSON elements between two checks of the deadline.
const CHECKED: usize = 4096;

/// Builds a tensor from the bytes of its elements.
pub(crate) fn from_bytes(of: &Announced, bytes: Bytes, lease: &Lease) -> Result<TensorData, Refusal> {
    if of.dtype == DataType::String {
        return texts_from_bytes(of, &bytes, lease);
    }
    let expected = of.dtype.bytes_for(of.elements).filter(|expected| *expected == bytes.len());
    if expected.is_none() {
        return Err(Refusal::ByteCount {
            name: of.name.clone(),
            shape: of.shape.clone(),
            datatype: of.datatype,
            expected: of.dtype.bytes_for(of.elements).unwrap_or(usize::MAX),
            got: bytes.len(),
        });
    }
    TensorData::adopt(of.dtype, &of.shape, bytes).map_err(tensor(of))
}

fn tensor(of: &Announced) -> impl FnOnce(bb_ir::Error) -> Refusal {
    let name = of.name.clone();
    move |source| Refusal::Tensor { name, source }
}

/// Returns the refusal for a wrong number of elements.
pub(crate) fn count(of: &Announced, got: usize) -> Refusal {
    let (name, shape) = (of.name.clone(), of.shape.clone());
    Refusal::Count { name, shape, expected: of.elements, got: got.to_string() }
}

fn texts_from_bytes(of: &Announced, bytes: &[u8], lease: &Lease) -> Result<TensorData, Refusal> {
    if of.elements > bytes.len() / LENGTH {
        return Err(Refusal::Count {
            name: of.name.clone(),
            shape: of.shape.clone(),
            expected: of.elements,
            got: format!("{} bytes", bytes.len()),
        });
    }
    lease.grow(bytes.len().saturating_add(of.elements.saturating_mul(size_of::<u64>())))?;
    let mut texts = StringsBuilder::with_room("reading texts", of.elements).map_err(tensor(of))?;
    let mut rest = bytes;
    for index in 0..of.elements {
        if index.is_multiple_of(CHECKED) {
            cancel::check()?;
        }
        let cut = || Refusal::TextLength { name: of.name.clone(), index };
        let (length, after) = rest.split_first_chunk::<LENGTH>().ok_or_else(cut)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| cut())?;
        let (text, after) = after.split_at_checked(length).ok_or_else(cut)?;
        texts.push(text).map_err(tensor(of))?;
        rest = after;
    }
    if !rest.is_empty() {
        return Err(Refusal::TextLength { name: of.name.clone(), index: of.elements });
    }
    texts.finish(&of.shape).map_err(tensor(of))
}

/// Builds a tensor from separate strings, which were counted before. `each` calls a function with each string. `room` is the maximum of
/// their total size in bytes.
pub(crate) fn from_texts(
    of: &Announced,
    room: usize,
    lease: &Lease,
    each: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), Refusal>) -> Result<(), Refusal>,
) -> Result<TensorData, Refusal> {
    lease.grow(room.saturating_add(of.elements.saturating_mul(2 * size_of::<usize>())))?;
    let mut built = StringsBuilder::with_room("reading texts", of.elements).map_err(tensor(of))?;
    each(&mut |text| built.push(text).map_err(tensor(of)))?;
    built.finish(&of.shape).map_err(tensor(of))
}

/// Returns the elements in the binary encoding of the protocol.
pub(crate) fn to_bytes(x: &TensorData) -> Result<Bytes, Refusal> {
    if x.dtype() != DataType::String {
        let bytes = x.unaligned_bytes().cloned();
        return bytes.map_err(|_| Refusal::Internal { what: "the elements of a result cannot be read" });
    }
    let mut bytes = BytesMut::with_capacity(x.byte_len());
    for text in x.iter_bytes() {
        // The strings come from a model within `Limits`, or from a request. Both are smaller than 4 GiB.
        bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(text);
    }
    Ok(bytes.freeze())
}

/// Builds a tensor from JSON: a flat list of all elements, or lists that are nested like the shape.
pub(crate) fn from_json(of: &Announced, json: &RawValue, lease: &Lease) -> Result<TensorData, Refusal> {
    // Each element takes at least two bytes of JSON, including its comma. So the allocation is limited by the received bytes, not by the
    // claimed extents.
    let room = of.elements.min(json.get().len() / 2 + 1);
    match of.dtype {
        DataType::Bool => numbers::<Truth>(of, json, room, lease, |x| {
            TensorData::bools(&of.shape, &x.iter().map(|x| x.0).collect::<Vec<_>>())
        }),
        DataType::U8 => typed::<u8>(of, json, room, lease),
        DataType::U16 => typed::<u16>(of, json, room, lease),
        DataType::U32 => typed::<u32>(of, json, room, lease),
        DataType::U64 => typed::<u64>(of, json, room, lease),
        DataType::I8 => typed::<i8>(of, json, room, lease),
        DataType::I16 => typed::<i16>(of, json, room, lease),
        DataType::I32 => typed::<i32>(of, json, room, lease),
        DataType::I64 => typed::<i64>(of, json, room, lease),
        DataType::F16 => typed::<f16>(of, json, room, lease),
        DataType::BF16 => typed::<bf16>(of, json, room, lease),
        DataType::F32 => typed::<f32>(of, json, room, lease),
        DataType::F64 => typed::<f64>(of, json, room, lease),
        DataType::String => {
            lease.grow(json.get().len().saturating_add(8 * room))?;
            let mut texts = StringsBuilder::with_room("reading texts", room).map_err(tensor(of))?;
            read(of, json, &mut texts)?;
            texts.finish(&of.shape).map_err(tensor(of))
        }
        _ => Err(Refusal::Internal { what: "an input has a type that the protocol lacks" }),
    }
}

fn typed<T: Element + FromJson>(
    of: &Announced,
    json: &RawValue,
    room: usize,
    lease: &Lease,
) -> Result<TensorData, Refusal> {
    numbers::<T>(of, json, room, lease, |x| TensorData::new(&of.shape, x))
}

fn numbers<T: FromJson>(
    of: &Announced,
    json: &RawValue,
    room: usize,
    lease: &Lease,
    make: impl FnOnce(&[T]) -> Result<TensorData, bb_ir::Error>,
) -> Result<TensorData, Refusal> {
    // Counts the bytes twice: for the list and for the tensor.
    lease.grow(room.saturating_mul(2 * size_of::<T>()))?;
    let mut list = Vec::with_capacity(room);
    read(of, json, &mut list)?;
    make(&list).map_err(tensor(of))
}

/// Reads all elements into a list, and checks their number and nesting against the shape.
fn read(of: &Announced, json: &RawValue, to: &mut dyn Collect) -> Result<(), Refusal> {
    let mut reading = Reading { to, of, got: 0, leaves: None };
    let mut json = serde_json::Deserializer::from_str(json.get());
    let result = Level { reading: &mut reading, depth: 0 }.deserialize(&mut json);
    result.map_err(|source| {
        cancel::check().err().unwrap_or_else(|| Refusal::elements(&of.name, of.dtype, Some(source)))
    })?;
    if reading.got == of.elements { Ok(()) } else { Err(count(of, reading.got)) }
}

struct Reading<'a> {
    to: &'a mut dyn Collect,
    of: &'a Announced,
    got: usize,
    /// The number of lists around each element. `None` before the first element.
    leaves: Option<usize>,
}

impl Reading<'_> {
    fn leaf<E: serde::de::Error>(
        &mut self,
        depth: usize,
        add: impl FnOnce(&mut dyn Collect) -> bool,
    ) -> Result<(), E> {
        if depth == 0 {
            return Err(E::custom("expected a list"));
        }
        if *self.leaves.get_or_insert(depth) != depth || (depth != 1 && depth != self.of.shape.len()) {
            return Err(E::custom(format_args!(
                "the lists are not nested as the extents {:?} say",
                self.of.shape
            )));
        }
        if self.got == self.of.elements {
            return Err(E::custom(format_args!("more than {} elements", self.of.elements)));
        }
        self.got += 1;
        if self.got.is_multiple_of(CHECKED) && cancel::check().is_err() {
            return Err(E::custom("the request is over"));
        }
        if add(self.to) {
            return Ok(());
        }
        Err(E::custom(format_args!("element {} is no {}", self.got - 1, self.of.datatype)))
    }
}

/// The deserializer of a list or an element inside `depth` lists.
struct Level<'a, 'b> {
    reading: &'a mut Reading<'b>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Level<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} or a list", self.reading.of.datatype)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Level { reading, depth } = self;
        let shape = &reading.of.shape;
        if depth >= shape.len().max(1) {
            return Err(A::Error::custom(format_args!("the lists are deeper than the extents {shape:?}")));
        }
        let mut items = 0;
        while list.next_element_seed(Level { reading: &mut *reading, depth: depth + 1 })?.is_some() {
            items += 1;
        }
        let flat =
            depth == 0 && items == reading.of.elements && reading.leaves.is_none_or(|leaves| leaves == 1);
        if flat || reading.of.shape.get(depth) == Some(&items) {
            return Ok(());
        }
        Err(A::Error::custom(format_args!(
            "a list of {items} items does not fit the extents {:?}",
            reading.of.shape
        )))
    }

    fn visit_bool<E: serde::de::Error>(self, x: bool) -> Result<(), E> {
        self.reading.leaf(self.depth, |to| to.bool(x))
    }

    fn visit_u64<E: serde::de::Error>(self, x: u64) -> Result<(), E> {
        self.reading.leaf(self.depth, |to| to.u64(x))
    }

    fn visit_i64<E: serde::de::Error>(self, x: i64) -> Result<(), E> {
        self.reading.leaf(self.depth, |to| to.i64(x))
    }

    fn visit_f64<E: serde::de::Error>(self, x: f64) -> Result<(), E> {
        self.reading.leaf(self.depth, |to| to.f64(x))
    }

    fn visit_str<E: serde::de::Error>(self, x: &str) -> Result<(), E> {
        self.reading.leaf(self.depth, |to| to.str(x))
    }
}

/// Collects JSON elements. Each method returns false if the collection cannot store a value of its type.
trait Collect {
    fn bool(&mut self, _: bool) -> bool {
        false
    }
    fn u64(&mut self, _: u64) -> bool {
        false
    }
    fn i64(&mut self, _: i64) -> bool {
        false
    }
    fn f64(&mut self, _: f64) -> bool {
        false
    }
    fn str(&mut self, _: &str) -> bool {
        false
    }
}

impl Collect for StringsBuilder {
    fn str(&mut self, x: &str) -> bool {
        self.push(x).is_ok()
    }
}

impl<T: FromJson> Collect for Vec<T> {
    fn bool(&mut self, x: bool) -> bool {
        T::from_bool(x).map(|x| self.push(x)).is_some()
    }
    fn u64(&mut self, x: u64) -> bool {
        T::from_u64(x).map(|x| self.push(x)).is_some()
    }
    fn i64(&mut self, x: i64) -> bool {
        T::from_i64(x).map(|x| self.push(x)).is_some()
    }
    fn f64(&mut self, x: f64) -> bool {
        T::from_f64(x).map(|x| self.push(x)).is_some()
    }
}

/// An element that is built from a JSON number or boolean. Each function returns `None` if the element type cannot represent the value.
trait FromJson: Sized {
    fn from_bool(_: bool) -> Option<Self> {
        None
    }
    fn from_u64(_: u64) -> Option<Self> {
        None
    }
    fn from_i64(_: i64) -> Option<Self> {
        None
    }
    fn from_f64(_: f64) -> Option<Self> {
        None
    }
}

struct Truth(bool);

impl FromJson for Truth {
    fn from_bool(x: bool) -> Option<Truth> {
        Some(Truth(x))
    }
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl FromJson for $t {
            fn from_u64(x: u64) -> Option<$t> {
                x.try_into().ok()
            }
            fn from_i64(x: i64) -> Option<$t> {
                x.try_into().ok()
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 i8 i16 i32 i64);

macro_rules! floats {
    ($($t:ty: $from:expr, $whole:expr;)*) => {$(
        // Floats are rounded, including integers above their precision. Only values too large for the type are refused.
        #[allow(clippy::cast_precision_loss, reason = "floats round, and those of 16 bits without a cast")]
        impl FromJson for $t {
            fn from_u64(x: u64) -> Option<$t> {
                let from: fn(_) -> _ = $whole;
                Some(from(x.into())).filter(|x: &$t| x.is_finite())
            }
            fn from_i64(x: i64) -> Option<$t> {
                let from: fn(_) -> _ = $whole;
                Some(from(x.into())).filter(|x: &$t| x.is_finite())
            }
            fn from_f64(x: f64) -> Option<$t> {
                Some($from(x)).filter(|x: &$t| x.is_finite())
            }
        }
    )*};
}

floats! {
    f16: f16_from_f64, |x| f16_from_f64(f64_to_odd(x));
    bf16: bf16_from_f64, |x| bf16_from_f64(f64_to_odd(x));
    f32: |x| x as f32, |x: i128| x as f32;
    f64: |x| x, |x: i128| x as f64;
}

/// The elements of a tensor, serialized as a JSON list.
pub(crate) struct List<'a>(pub(crate) &'a TensorData);

impl List<'_> {
    /// Refuses elements that JSON cannot represent: infinities and NaN.
    pub(crate) fn check(&self, name: &str) -> Result<(), Refusal> {
        let odd = match self.0.dtype() {
            DataType::F16 => odd::<f16>(self.0, f16::to_f64),
            DataType::BF16 => odd::<bf16>(self.0, bf16::to_f64),
            DataType::F32 => odd::<f32>(self.0, f64::from),
            DataType::F64 => odd::<f64>(self.0, |x| x),
            _ => None,
        };
        match odd {
            Some((index, value)) => Err(Refusal::NotJson { name: name.to_owned(), index, value }),
            None => Ok(()),
        }
    }
}

fn odd<T: Element>(x: &TensorData, number: fn(T) -> f64) -> Option<(usize, f64)> {
    let numbers = x.as_slice::<T>().ok()?.iter().map(|x| number(*x));
    numbers.enumerate().find(|(_, x)| !x.is_finite())
}

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let x = self.0;
        match x.dtype() {
            DataType::Bool => to.collect_seq(x.to_bools().map_err(serde::ser::Error::custom)?),
            DataType::U8 => list::<S, u8, _>(x, to, |x| x),
            DataType::U16 => list::<S, u16, _>(x, to, |x| x),
            DataType::U32 => list::<S, u32, _>(x, to, |x| x),
            DataType::U64 => list::<S, u64, _>(x, to, |x| x),
            DataType::I8 => list::<S, i8, _>(x, to, |x| x),
            DataType::I16 => list::<S, i16, _>(x, to, |x| x),
            DataType::I32 => list::<S, i32, _>(x, to, |x| x),
            DataType::I64 => list::<S, i64, _>(x, to, |x| x),
            DataType::F16 => list::<S, f16, _>(x, to, f16::to_f32),
            DataType::BF16 => list::<S, bf16, _>(x, to, bf16::to_f32),
            DataType::F32 => list::<S, f32, _>(x, to, |x| x),
            DataType::F64 => list::<S, f64, _>(x, to, |x| x),
            DataType::String => {
                let mut list = to.serialize_seq(Some(x.len()))?;
                x.iter_str().try_for_each(|text| list.serialize_element(&text))?;
                list.end()
            }
            other => Err(serde::ser::Error::custom(format_args!("{other} has no form in JSON"))),
        }
    }
}

fn list<S: Serializer, T: Element, J: Serialize>(
    x: &TensorData,
    to: S,
    number: fn(T) -> J,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(x.as_slice::<T>().map_err(serde::ser::Error::custom)?.iter().map(|x| number(*x)))
}
