//! Calls of operators, which are the nodes of the vectors, on any type of floats.

use super::super::{EXPECTED, folder, read, stems};
use super::draws::converted;
use bb::ir::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TypeProto, ValueInfoProto, type_proto,
};
use bb::{CompileOptions, DataType, Module, Runtime, TensorData};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The results of a call.
type Made = Result<Vec<TensorData>, bb::Error>;

/// The most calls of one operator. Calls differ in their attributes or in the types of their operands.
const MOST: usize = 5;

type Executable = Arc<dyn bb::ErasedExecutable>;

/// The operator's domain and name.
pub(super) type Name = (String, String);

/// Operands that stay as the vectors have them, because a call has no meaning with any others: scales, sizes, positions.
/// The last column is true if they have the type of the others.
const KEPT: &[(&str, &[usize], bool)] = &[
    ("CropAndResize", &[1], true),
    ("MaxRoiPool", &[1], true),
    ("Resize", &[1, 2], false),
    ("RoiAlign", &[1], true),
    ("Upsample", &[1], false),
];

/// A call: a node, and its operands.
pub(super) struct Call {
    node: NodeProto,
    opsets: Vec<OperatorSetIdProto>,
    /// The operands whose floats are drawn, by name.
    pub(super) floats: Vec<(String, TensorData)>,
    /// Operands that are not drawn and have the type of those that are.
    alike: Vec<(String, TensorData)>,
    others: Vec<(String, TensorData)>,
}

fn is_float(dtype: DataType) -> bool {
    matches!(dtype, DataType::F16 | DataType::BF16 | DataType::F32 | DataType::F64)
}

/// Lists calls of each operator.
pub(super) fn calls() -> BTreeMap<Name, Vec<Call>> {
    let mut all: BTreeMap<Name, Vec<Call>> = BTreeMap::new();
    let mut seen: HashMap<Name, BTreeSet<Vec<u8>>> = HashMap::new();
    let mut families: Vec<String> = stems(&folder(), "pb").into_iter().collect();
    // Families of a topic have the calls that differ most; this one has all types.
    families.sort_by_key(|name| name == "element_types");
    for family in families {
        for model in read(&family) {
            if model.metadata_props.iter().any(|entry| entry.key() == "fails") || !model.functions.is_empty()
            {
                continue;
            }
            for call in nodes(&model) {
                let name = (call.node.domain().to_owned(), call.node.op_type().to_owned());
                let name = if name.0 == "ai.onnx" { (String::new(), name.1) } else { name };
                let kind = call.kind();
                let list = all.entry(name.clone()).or_default();
                // The family of all types always has a say.
                let full = list.len() >= MOST && family != "element_types" || list.len() >= 2 * MOST;
                if !full && seen.entry(name).or_default().insert(kind) {
                    list.push(call);
                }
            }
        }
    }
    all
}

/// Returns the nodes of a vector whose operands the vector gives.
fn nodes(model: &ModelProto) -> Vec<Call> {
    let graph = model.graph.as_ref().unwrap();
    let given: HashMap<&str, &TensorProto> =
        graph.initializer.iter().filter(|x| !x.name().starts_with(EXPECTED)).map(|x| (x.name(), x)).collect();
    let mut found = Vec::new();
    for node in &graph.node {
        let names: BTreeSet<&String> = node.input.iter().filter(|name| !name.is_empty()).collect();
        let data: Option<Vec<(String, TensorData)>> = names
            .iter()
            .map(|name| Some(((*name).clone(), TensorData::from_proto(given.get(name.as_str())?).ok()?)))
            .collect();
        let Some(data) = data else { continue };
        let kept = KEPT.iter().find(|(op, ..)| *op == node.op_type());
        let (kept, typed) = kept.map_or((&[][..], false), |(_, kept, typed)| (*kept, *typed));
        let stays = |name: &str| kept.iter().any(|at| node.input.get(*at).is_some_and(|own| own == name));
        let main = node
            .input
            .iter()
            .find_map(|name| data.iter().find(|(own, x)| own == name && is_float(x.dtype()) && !stays(name)));
        let Some(main) = main.map(|(_, x)| x.dtype()) else { continue };
        let (main, others): (Vec<_>, Vec<_>) = data.into_iter().partition(|(_, x)| x.dtype() == main);
        let (kept, floats): (Vec<_>, Vec<_>) = main.into_iter().partition(|(name, _)| stays(name));
        let (alike, kept) = if typed { (kept, Vec::new()) } else { (Vec::new(), kept) };
        let others = others.into_iter().chain(kept).collect();
        let opsets = model.opset_import.clone();
        found.push(Call { node: node.clone(), opsets, floats, alike, others });
    }
    found
}

impl Call {
    /// Makes a call of a node with these operands.
    pub(super) fn new(node: NodeProto, floats: Vec<(String, TensorData)>) -> Call {
        let opset = |(domain, version): (&str, i64)| OperatorSetIdProto {
            domain: Some(domain.to_owned()),
            version: Some(version),
        };
        let opsets = [("", 22), ("com.microsoft", 1)].map(opset).to_vec();
        Call { node, opsets, floats, alike: Vec::new(), others: Vec::new() }
    }

    /// Key that distinguishes the call from other calls of the operator.
    fn kind(&self) -> Vec<u8> {
        let mut node = self.node.clone();
        node.name = None;
        node.output.iter_mut().filter(|name| !name.is_empty()).for_each(|name| *name = "y".to_owned());
        let given: Vec<bool> = node.input.iter().map(|name| !name.is_empty()).collect();
        node.input = given.iter().map(|given| given.to_string()).collect();
        let version = self.opsets.iter().map(|opset| format!("{}{:?}", opset.domain(), opset.version));
        let mut kind = node.encode_to_vec();
        kind.extend(version.collect::<String>().bytes());
        kind.extend(self.others.iter().map(|(_, x)| x.dtype() as u8));
        kind
    }

    /// Compiles the call for operands of this type of floats.
    fn compiled(&self, on: &Arc<Runtime>, dtype: DataType) -> Result<Executable, Box<dyn std::error::Error>> {
        let port = |name: &str, x: &TensorData| {
            let ty = type_proto::Tensor { elem_type: dtype.to_onnx().into(), ..Default::default() };
            let mut ty = ty;
            ty.shape = Some(bb::ir::proto::TensorShapeProto {
                dim: x
                    .shape()
                    .iter()
                    .map(|&d| bb::ir::proto::tensor_shape_proto::Dimension {
                        value: Some(bb::ir::proto::tensor_shape_proto::dimension::Value::DimValue(d as i64)),
                        ..Default::default()
                    })
                    .collect(),
            });
            ValueInfoProto {
                name: Some(name.to_owned()),
                r#type: Some(TypeProto {
                    value: Some(type_proto::Value::TensorType(ty)),
                    ..Default::default()
                }),
                ..Default::default()
            }
        };
        let named = |name: &String| ValueInfoProto { name: Some(name.clone()), ..Default::default() };
        let graph = GraphProto {
            name: Some("call".to_owned()),
            node: vec![self.node.clone()],
            input: self.floats.iter().map(|(name, x)| port(name, x)).collect(),
            initializer: self
                .others
                .iter()
                .map(|(name, x)| x.to_proto(name))
                .chain(self.alike.iter().map(|(name, x)| {
                    // Numbers that each type has.
                    let short = converted(&converted(x, DataType::BF16), DataType::F16);
                    converted(&short, dtype).to_proto(name)
                }))
                .collect(),
            output: self.node.output.iter().filter(|name| !name.is_empty()).map(named).collect(),
            ..Default::default()
        };
        let model = ModelProto {
            ir_version: Some(10),
            opset_import: self.opsets.clone(),
            graph: Some(graph),
            ..Default::default()
        };
        let module = Module::from_bytes(model.encode_to_vec())?;
        Ok(on.clone().compile(module, &CompileOptions::default())?)
    }

    /// Returns a function that runs the call with these operands.
    pub(super) fn ready<'a>(
        &'a self,
        on: &'a Arc<Runtime>,
        dtype: DataType,
    ) -> Result<impl Fn(&[TensorData]) -> Made + 'a, Box<dyn std::error::Error>> {
        let executable = self.compiled(on, dtype)?;
        Ok(move |operands: &[TensorData]| {
            let mut inputs = Vec::new();
            for port in executable.inputs() {
                let at = self.floats.iter().position(|(name, _)| *name == port.name).unwrap();
                inputs.push(on.constant(&operands[at])?);
            }
            let inputs: Vec<_> = inputs.iter().map(Some).collect();
            executable.run(&inputs)?.iter().map(|y| on.to_host(y)).collect()
        })
    }
}
