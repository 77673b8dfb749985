//! The JSON of requests and answers.
//!
//! Lists have limits of their own, because an item may take more memory than its JSON text. The elements of tensors stay JSON text until
//! the input is known to fit the model.

use crate::elements::{self, List};
use crate::held_bytes::Lease;
use crate::model::{Inputs, Model};
use crate::parameters::{self, OfOutput, OfRequest, Parameter, wrong};
use crate::port::TensorPort;
use crate::refusal::{Refusal, shown};
use bb::{DataType, TensorData};
use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize as De, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// The maximum number of inputs, and of outputs, in a request.
const PORTS: usize = 1024;

/// The maximum rank of a tensor.
const RANK: usize = 64;

/// The maximum number of parameters of a request or a tensor.
const PARAMETERS: usize = 64;

/// Counts the bytes that parsing needs in addition to the JSON and the parsed values, and returns their number. The parser copies strings
/// with escapes and long numbers, records the brackets around a value, and takes up to twice the room for that. Names with escapes are
/// copied once more.
pub(super) fn hold_parsing(json: &[u8], lease: &Lease) -> Result<usize, Refusal> {
    /// The maximum size in bytes of JSON whose parsing is not counted.
    const LEAST: usize = 64 << 10;
    if json.len() <= LEAST {
        return Ok(0);
    }
    let (mut digits, mut longest, mut depth, mut deepest) = (0usize, 0, 0usize, 0);
    for byte in json {
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        longest = longest.max(digits);
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    let bytes = match json.contains(&b'\\') {
        true => 3 * json.len(),
        false => 2 * (longest + deepest),
    };
    lease.grow(bytes)?;
    Ok(bytes)
}

/// An inference request, before its elements are read.
#[derive(De)]
#[serde(deny_unknown_fields)]
pub(super) struct InferRequest<'a> {
    #[serde(default, borrow)]
    id: Option<Cow<'a, str>>,
    /// Some clients repeat the model name of the path here.
    #[serde(default, borrow)]
    model_name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    parameters: Parameters<'a>,
    #[serde(borrow)]
    inputs: Bounded<Object<JsonInput<'a>>, PORTS>,
    #[serde(default, borrow)]
    outputs: Bounded<Object<Wanted<'a>>, PORTS>,
}

#[derive(De)]
#[serde(deny_unknown_fields)]
struct JsonInput<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    datatype: Cow<'a, str>,
    shape: Bounded<i64, RANK>,
    #[serde(default, borrow)]
    parameters: Parameters<'a>,
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
}

#[derive(De)]
#[serde(deny_unknown_fields)]
struct Wanted<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default, borrow)]
    parameters: Parameters<'a>,
}

/// An inference request that was checked against its model.
pub(super) struct Parsed {
    pub(super) id: Option<String>,
    pub(super) inputs: Vec<Option<TensorData>>,
    pub(super) wanted: Vec<usize>,
    pub(super) binary: Vec<bool>,
    /// For each output of the answer, the number of classes to answer instead of the output.
    pub(super) classes: Vec<Option<usize>>,
    pub(super) timeout: Option<Duration>,
}

impl InferRequest<'_> {
    /// Checks the request against its model and reads the elements.
    pub(super) fn read(self, model: &Model, mut binary: Bytes, lease: &Lease) -> Result<Parsed, Refusal> {
        if let Some(name) = self.model_name.filter(|name| *name != model.name) {
            return Err(Refusal::UnknownModel {
                name: shown(&name),
                known: format!("`{}`, by the path", model.name),
            });
        }
        let mut of_request = OfRequest::default();
        for (name, value) in &self.parameters.0 {
            of_request.read(name, *value)?;
        }
        let length = binary.len();
        let mut inputs = Inputs::of(model);
        for Object(input) in &self.inputs.0 {
            let announced = inputs.announce(&input.name, &input.datatype, &input.shape.0)?;
            let size = input.binary_size()?;
            let tensor = match (input.data, size) {
                (Some(_), Some(_)) => {
                    let ways = "as `data` and by `binary_data_size`";
                    return Err(Refusal::TwoData { name: announced.name, ways });
                }
                (None, None) => {
                    let expected = "`data`, or the parameter `binary_data_size`";
                    return Err(Refusal::NoData { name: announced.name, expected });
                }
                (Some(data), None) => elements::from_json(&announced, data, lease)?,
                (None, Some(size)) => {
                    if size > binary.len() {
                        let expected = (length - binary.len()).saturating_add(size);
                        return Err(Refusal::BinaryLength { expected, got: length });
                    }
                    elements::from_bytes(&announced, binary.split_to(size), lease)?
                }
            };
            inputs.put(&announced, tensor);
        }
        if !binary.is_empty() {
            return Err(Refusal::BinaryLength { expected: length - binary.len(), got: length });
        }
        let wanted = model.wanted(self.outputs.0.iter().map(|output| output.0.name.as_ref()))?;
        let mut forms = vec![of_request.binary_outputs; wanted.len()];
        let mut classes = vec![None; wanted.len()];
        for (Object(output), (form, classes)) in self.outputs.0.iter().zip(forms.iter_mut().zip(&mut classes))
        {
            let mut of_output = OfOutput::default();
            for (name, value) in &output.parameters.0 {
                of_output.read(&output.name, name, *value)?;
            }
            *form = of_output.binary.unwrap_or(*form);
            *classes = of_output.classes;
        }
        let (id, timeout) = (self.id.map(Cow::into_owned), of_request.timeout);
        Ok(Parsed { id, inputs: inputs.finish()?, wanted, binary: forms, classes, timeout })
    }
}

impl JsonInput<'_> {
    fn binary_size(&self) -> Result<Option<usize>, Refusal> {
        let what = || format!("input `{}`", shown(&self.name));
        let mut size = None;
        for (name, value) in &self.parameters.0 {
            match (name.as_ref(), value) {
                ("binary_data_size", Parameter::Unsigned(n)) => {
                    size = Some(usize::try_from(*n).unwrap_or(usize::MAX));
                }
                ("binary_data_size", _) => return Err(wrong(what(), name, "a number of bytes")),
                _ => parameters::of_input(&self.name, name)?,
            }
        }
        Ok(size)
    }
}

impl<'de> Deserialize<'de> for Parameter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Parameter, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = Parameter;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, a number or a text")
            }
            fn visit_bool<E>(self, x: bool) -> Result<Parameter, E> {
                Ok(Parameter::Bool(x))
            }
            fn visit_u64<E>(self, x: u64) -> Result<Parameter, E> {
                Ok(Parameter::Unsigned(x))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Parameter, E> {
                Ok(Parameter::Other)
            }
            fn visit_f64<E>(self, _: f64) -> Result<Parameter, E> {
                Ok(Parameter::Other)
            }
            fn visit_str<E>(self, _: &str) -> Result<Parameter, E> {
                Ok(Parameter::Text)
            }
            fn visit_unit<E>(self) -> Result<Parameter, E> {
                Ok(Parameter::Other)
            }
        }
        from.deserialize_any(Scalar)
    }
}

/// Parameters by name. A duplicate name is an error.
#[derive(Debug, Default)]
struct Parameters<'a>(BTreeMap<Cow<'a, str>, Parameter>);

impl<'de: 'a, 'a> Deserialize<'de> for Parameters<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Parameters<'a>, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Parameters<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of at most {PARAMETERS} parameters")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Parameters<'de>, A::Error> {
                let mut map = BTreeMap::new();
                while let Some(Name(name)) = from.next_key()? {
                    if map.len() == PARAMETERS {
                        return Err(A::Error::invalid_length(PARAMETERS + 1, &self));
                    }
                    if map.insert(name, from.next_value()?).is_some() {
                        return Err(A::Error::custom("a parameter is given twice"));
                    }
                }
                Ok(Parameters(map))
            }
        }
        from.deserialize_map(Map)
    }
}

/// A string that is borrowed if it has no escapes.
#[derive(De)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// A value that must be a JSON object. Without this type, serde would also accept a list of the fields' values.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Object<T>, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, from: A) -> Result<Object<T>, A::Error> {
                T::deserialize(serde::de::value::MapAccessDeserializer::new(from)).map(Object)
            }
        }
        from.deserialize_map(Fields(PhantomData))
    }
}

/// A list of at most `N` items.
struct Bounded<T, const N: usize>(Vec<T>);

impl<T, const N: usize> Default for Bounded<T, N> {
    fn default() -> Bounded<T, N> {
        Bounded(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for Bounded<T, N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Bounded<T, N>, D::Error> {
        struct Items<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Items<T, N> {
            type Value = Bounded<T, N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {N} items")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Bounded<T, N>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = from.next_element()? {
                    if items.len() == N {
                        return Err(A::Error::invalid_length(N + 1, &self));
                    }
                    items.push(item);
                }
                Ok(Bounded(items))
            }
        }
        from.deserialize_seq(Items(PhantomData))
    }
}

/// The answer to an inference request.
#[derive(Serialize)]
pub(super) struct InferResponse<'a> {
    pub(super) model_name: &'a str,
    pub(super) model_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    pub(super) outputs: Vec<Output<'a>>,
}

/// An output of an answer.
#[derive(Serialize)]
pub(super) struct Output<'a> {
    name: &'a str,
    datatype: &'static str,
    shape: &'a [usize],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Binary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<List<'a>>,
}

#[derive(Serialize)]
struct Binary {
    binary_data_size: usize,
}

impl<'a> Output<'a> {
    pub(super) fn new(
        port: &'a TensorPort,
        result: &'a TensorData,
        binary: Option<usize>,
        data: Option<List<'a>>,
    ) -> Output<'a> {
        let parameters = binary.map(|binary_data_size| Binary { binary_data_size });
        // Classes are strings, whatever the type of the output.
        let datatype = if result.dtype() == DataType::String { "BYTES" } else { port.datatype };
        Output { name: &port.name, datatype, shape: result.shape(), parameters, data }
    }
}
