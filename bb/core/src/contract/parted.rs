//! The values of a graph that runs in parts: inputs, outputs and values that pass between parts.

use super::executable::Port;
use super::{InputSpec, OnnxValue, Tensor};
use crate::Error;
use bb_ir::graph::{Graph, ValueId, ValueType};

/// The inputs, outputs and constants of a graph that runs in parts.
pub struct PartedGraph<T> {
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    input_values: Vec<ValueId>,
    output_values: Vec<ValueId>,
    /// The number of values of the graph.
    count: usize,
    declared: InputSpec,
    /// The constants that are defaults of inputs, or are outputs, or are read by a part from outside.
    constants: Vec<(ValueId, T)>,
}

/// The values of a run, indexed by value id.
pub struct PartValues<T>(Vec<Option<OnnxValue<T>>>);

impl<T: Tensor + Clone> PartedGraph<T> {
    pub fn new(graph: &Graph, strict: bool, constants: Vec<(ValueId, T)>) -> PartedGraph<T> {
        PartedGraph {
            inputs: Port::all_of(graph, &graph.inputs),
            outputs: Port::all_of(graph, &graph.outputs),
            input_values: graph.inputs.clone(),
            output_values: graph.outputs.clone(),
            count: graph.values.len(),
            declared: InputSpec::new(graph).with_strict(strict),
            constants,
        }
    }

    /// Checks the inputs of a run, and returns them together with the constants. Trailing inputs may be
    /// omitted.
    ///
    /// # Errors
    ///
    /// [`Error::InputCount`], [`Error::Input`] and [`Error::MissingInput`].
    pub fn begin(&self, given: &[Option<OnnxValue<&T>>]) -> Result<PartValues<T>, Error> {
        self.declared.check_items(given)?;
        let mut values = PartValues(vec![None; self.count]);
        for (value, constant) in &self.constants {
            values.set(*value, Some(OnnxValue::Tensor(constant.clone())));
        }
        for (at, (value, port)) in self.input_values.iter().zip(&self.inputs).enumerate() {
            match given.get(at).and_then(Option::as_ref) {
                Some(item) => values.set(*value, Some(item.map(&mut |x: &&T| (*x).clone()))),
                None if port.may_be_omitted() => {}
                None => {
                    let needed = self.inputs.iter().filter(|port| !port.may_be_omitted());
                    let expected = needed.map(|port| port.name.clone()).collect();
                    return Err(Error::MissingInput { name: port.name.clone(), expected });
                }
            }
        }
        Ok(values)
    }

    /// Returns the outputs of a run.
    ///
    /// # Errors
    ///
    /// [`Error::MissingOutput`] if no part computed an output.
    pub fn end(&self, values: &PartValues<T>) -> Result<Vec<OnnxValue<T>>, Error> {
        let output = |(value, port): (&ValueId, &Port)| {
            let missing = || Error::MissingOutput { name: port.name.clone(), made: Vec::new() };
            values.get(*value).cloned().ok_or_else(missing)
        };
        self.output_values.iter().zip(&self.outputs).map(output).collect()
    }
}

impl Port {
    /// Returns whether a caller may omit the input, because it has a default value or is an optional.
    fn may_be_omitted(&self) -> bool {
        self.optional || matches!(self.ty, ValueType::Optional(_))
    }
}

impl<T> PartValues<T> {
    pub fn get(&self, value: ValueId) -> Option<&OnnxValue<T>> {
        self.0.get(value.index()).and_then(Option::as_ref)
    }

    /// Stores a value; `None` drops the previous value.
    pub fn set(&mut self, value: ValueId, item: Option<OnnxValue<T>>) {
        if let Some(slot) = self.0.get_mut(value.index()) {
            *slot = item;
        }
    }

    /// Stores the results of a part.
    pub fn store(&mut self, outputs: &[ValueId], results: impl IntoIterator<Item = OnnxValue<T>>) {
        for (value, result) in outputs.iter().zip(results) {
            self.set(*value, Some(result));
        }
    }

    /// Drops values that no later part reads.
    pub fn drop_all(&mut self, dead: &[ValueId]) {
        dead.iter().for_each(|value| self.set(*value, None));
    }
}

/// Returns results as tensors; fails if one of them is not a tensor.
///
/// # Errors
///
/// [`Error::NotTensor`] with the name of the output.
pub fn tensors<T>(results: Vec<OnnxValue<T>>, outputs: &[Port]) -> Result<Vec<T>, Error> {
    let tensor = |(item, port): (OnnxValue<T>, &Port)| match item {
        OnnxValue::Tensor(x) => Ok(x),
        other => Err(Error::NotTensor { name: port.name.clone(), got: other.kind() }),
    };
    results.into_iter().zip(outputs).map(tensor).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use bb_ir::graph::ValueInfo;
    use bb_ir::{DataType, TensorData};

    #[derive(Debug, Clone, PartialEq)]
    struct Number(usize);

    impl Tensor for Number {
        fn dtype(&self) -> DataType {
            DataType::F32
        }

        fn shape(&self) -> &[usize] {
            &[]
        }
    }

    /// Returns a graph with the inputs `x`, `d` (with a default) and `o` (optional), and the outputs `y` and
    /// `d`.
    fn parted() -> PartedGraph<Number> {
        let tensor = || ValueType::Tensor { dtype: DataType::F32, shape: Some(Vec::new()) };
        let types = [tensor(), tensor(), ValueType::Optional(Box::new(tensor())), tensor()];
        let info =
            |(name, ty): (&str, ValueType)| ValueInfo { name: name.to_owned(), ty, declared: Vec::new() };
        let graph = Graph {
            values: ["x", "d", "o", "y"].into_iter().zip(types).map(info).collect(),
            inputs: vec![ValueId(0), ValueId(1), ValueId(2)],
            outputs: vec![ValueId(3), ValueId(1)],
            constants: vec![(ValueId(1), TensorData::scalar(1f32))],
            ..Graph::default()
        };
        PartedGraph::new(&graph, false, vec![(ValueId(1), Number(1))])
    }

    #[test]
    fn inputs_with_defaults_and_optional_inputs_may_be_omitted() {
        let parted = parted();
        let x = Number(7);
        let mut values = parted.begin(&[Some(OnnxValue::Tensor(&x))]).unwrap();
        assert_eq!(values.get(ValueId(0)), Some(&OnnxValue::Tensor(Number(7))));
        assert_eq!(values.get(ValueId(2)), None);
        let lacking = parted.end(&values).unwrap_err();
        assert!(matches!(&lacking, Error::MissingOutput { name, .. } if name == "y"), "{lacking:?}");
        values.store(&[ValueId(3)], [OnnxValue::Tensor(Number(9))]);
        let outputs = tensors(parted.end(&values).unwrap(), &parted.outputs).unwrap();
        assert_eq!(outputs, [Number(9), Number(1)]);
    }

    #[test]
    fn other_inputs_may_not_be_omitted() {
        let lacking = parted().begin(&[]).err().unwrap();
        assert_eq!(lacking.to_string(), r#"input `x` is missing; the graph needs ["x"]"#);
    }

    #[test]
    fn results_that_are_not_tensors_are_named() {
        let refused = tensors::<Number>(vec![OnnxValue::Absent], &parted().outputs).unwrap_err();
        assert!(
            matches!(&refused, Error::NotTensor { name, got: "an absent value" } if name == "y"),
            "{refused:?}"
        );
    }
}
