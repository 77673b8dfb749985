//! Draws calls of operations: most are nearly valid, with a parameter or an operand that is not.

use crate::draw::Draw;
use bb::conformance::Random;
use bb::ext::{BitsOp, CreateOp, ImageOp, IndexOp, LlmOp, MlOp, NnOp, ScalarOp};
use bb::ir::op::{Arity, Family, OpSpec, Param, ParamKind, ParamSpec};
use bb::{BackendHandle, DataType, Error, Primitive, RoundMode, TensorData, Value};
use std::borrow::Cow;
use std::sync::LazyLock;

/// A tensor, and the views that produce the operand from it on a backend.
#[derive(Debug)]
struct Operand {
    data: TensorData,
    views: Vec<(&'static OpSpec, Vec<Param<'static>>)>,
}

/// A call of an operation of any family.
#[derive(Debug)]
pub struct Call {
    pub op: &'static OpSpec,
    operands: Vec<Option<Operand>>,
    params: Vec<Param<'static>>,
}

/// Every operation that is no primitive.
static EXTENSIONS: LazyLock<Vec<&'static OpSpec>> = LazyLock::new(|| {
    let mut all = Vec::new();
    all.extend(BitsOp::ALL.iter().map(|op| op.spec()));
    all.extend(CreateOp::ALL.iter().map(|op| op.spec()));
    all.extend(ImageOp::ALL.iter().map(|op| op.spec()));
    all.extend(IndexOp::ALL.iter().map(|op| op.spec()));
    all.extend(LlmOp::ALL.iter().map(|op| op.spec()));
    all.extend(MlOp::ALL.iter().map(|op| op.spec()));
    all.extend(NnOp::ALL.iter().map(|op| op.spec()));
    all.extend(ScalarOp::ALL.iter().map(|op| op.spec()));
    all
});

/// The shapes of valid operands. A letter is an extent, the same wherever it occurs, `*` any number of extents, and `S` and
/// `K` one extent per spatial dimension of the call. Operations without a row take operands of one shape.
const SHAPES: &[(&str, &str)] = &[
    ("layer_normalization", "* d, d, d"),
    ("rms_normalization", "* d, d"),
    ("batch_normalization", "n c S, c, c, c, c"),
    ("conv", "n c S, m c K, m"),
    ("conv_transpose", "n c S, c m K, m"),
    ("max_pool", "n c S"),
    ("average_pool", "n c S"),
    ("pad", "*,"),
    ("clip", "*,,"),
    ("gather_nd", "a b c, i 2"),
    ("scatter_nd", "a b c, i 1, i b c"),
    ("rotate", "b h s 4, s 2, s 2"),
    ("attention", "b h s d, b h t d, b h t e, s t"),
    ("skip_rms_norm", "* d, * d, d, d"),
    ("linear", "* k, n k, n"),
    ("quantized_linear", "* 8, n 1 4, n 1,, n"),
    ("cached_attention", "b h s d, b h s d, b h s e, b h p d, b h p e,"),
    ("paged_attention", "b h s d, n z h d, n z h e, b m, b"),
    ("ragged_attention", "n h d, n h d, n h e, c z h d, c z h e, 2, 1, 1 m, c z h, c z h"),
    ("kv_append", "b g t d, b g s d, b"),
    ("sample_token", "* n, * p"),
    ("gaussian_blur", "* h w"),
    ("sobel", "* h w"),
    ("sharpen", "* h w"),
    ("grayscale", "3 h w"),
    ("contrast", "n 3 h w"),
    ("grid_sample", "n c S, n x y 2"),
    ("deform_conv", "n c h w, m c 1 1, n 2 h w, m, n 1 h w"),
    ("roi_align", "n c h w, r 4, r"),
    ("max_roi_pool", "n c h w, r 5"),
    ("dft", "* s 2"),
    ("tree_ensemble", "r c, n 4, n, t, l k, s w"),
    ("squared_distances", "n c, m c"),
];

/// The words that parameters know.
const WORDS: [&str; 18] = [
    "none",
    "add",
    "mul",
    "max",
    "min",
    "constant",
    "reflect",
    "edge",
    "wrap",
    "linear",
    "nearest",
    "cubic",
    "zeros",
    "border",
    "reflection",
    "magnitude",
    "x",
    "bt709",
];

impl Call {
    /// Draws a call.
    pub fn draw(draw: &mut Draw<'_>) -> Call {
        let mut call = if draw.below(3) == 0 {
            Call::primitive(&mut Random::new(draw.bits()))
        } else {
            let at = draw.below(EXTENSIONS.len());
            Call::extension(EXTENSIONS[at], draw)
        };
        call.spoil(draw);
        call
    }

    /// Draws a call of a primitive, on views.
    fn primitive(random: &mut Random) -> Call {
        let case = random.case();
        let views = |views: Vec<(Primitive, Vec<Param<'static>>)>| {
            views.into_iter().map(|(op, params)| (op.spec(), params)).collect()
        };
        let operands =
            case.operands.into_iter().map(|x| Some(Operand { data: x.data, views: views(x.views) }));
        Call { op: case.op.spec(), operands: operands.collect(), params: case.params }
    }

    /// Draws a call of an extension operation.
    fn extension(op: &'static OpSpec, draw: &mut Draw<'_>) -> Call {
        let spatial = 1 + draw.below(3);
        let dtype = match op.family {
            Family::Bits => draw.one(&[DataType::I32, DataType::U8, DataType::I64, DataType::F32]).copied(),
            _ if op.method == "and" || op.method == "or" || op.method == "xor" || op.method == "not" => {
                Some(DataType::Bool)
            }
            _ => None,
        };
        let dtype = dtype.unwrap_or_else(|| draw.dtype());
        let wild = draw.below(3) == 0;
        let shapes = shapes(op.method, op.inputs.len(), spatial, draw);
        let mut operands = Vec::new();
        for ((name, arity), shape) in op.inputs.iter().zip(shapes) {
            if *arity == Arity::Optional && draw.below(2) == 0 {
                operands.push(None);
                continue;
            }
            let data = match *name {
                "nodes" | "roots" => {
                    let data = draw.tensor(DataType::I32, &shape, false);
                    if draw.below(4) == 0 { data } else { modulo(&data, 4) }
                }
                "indices" | "images" => {
                    let dtype = if draw.below(2) == 0 { DataType::I64 } else { DataType::I32 };
                    let wild = wild && draw.below(4) == 0;
                    let data = draw.tensor(dtype, &shape, wild);
                    if draw.below(4) == 0 { data } else { modulo(&data, 2) }
                }
                _ => draw.tensor(dtype, &shape, wild),
            };
            operands.push(Some(Operand { data, views: Vec::new() }));
        }
        let params = op.params.iter().map(|param| usual(op, param, spatial, draw)).collect();
        Call { op, operands, params }
    }

    /// Replaces parameters or operands by hostile ones.
    fn spoil(&mut self, draw: &mut Draw<'_>) {
        for _ in 0..draw.below(3) {
            match draw.below(4) {
                0 => {
                    if let Some(slot) = draw.one_mut(&mut self.operands) {
                        let (dtype, shape) = (draw.dtype(), draw.shape(5));
                        *slot = Some(Operand { data: draw.tensor(dtype, &shape, true), views: Vec::new() });
                    }
                }
                _ => {
                    let at = draw.below(self.params.len());
                    if let (Some(spec), Some(slot)) = (self.op.params.get(at), self.params.get_mut(at)) {
                        *slot = hostile(spec, slot, draw);
                    }
                }
            }
        }
    }

    /// Returns the operands as tensors on the host.
    pub fn data(&self) -> impl Iterator<Item = &TensorData> {
        self.operands.iter().flatten().map(|operand| &operand.data)
    }

    /// Returns the floats among the parameters.
    pub fn floats(&self) -> impl Iterator<Item = f64> {
        self.params.iter().filter_map(|param| match param {
            Param::Float(value) => Some(*value),
            _ => None,
        })
    }

    /// Returns the element types among the parameters.
    pub fn types(&self) -> impl Iterator<Item = DataType> {
        self.params.iter().filter_map(|param| match param {
            Param::Type(dtype) | Param::OptType(Some(dtype)) => Some(*dtype),
            _ => None,
        })
    }

    /// Runs the call on a backend, and copies the results to the host.
    ///
    /// # Errors
    ///
    /// The backend's.
    pub fn run(&self, on: &BackendHandle) -> Result<Vec<TensorData>, Error> {
        let mut operands = Vec::new();
        for operand in &self.operands {
            operands.push(operand.as_ref().map(|x| x.bring(on)).transpose()?);
        }
        let operands: Vec<Option<&Value>> = operands.iter().map(Option::as_ref).collect();
        let results = on.call(self.op, &operands, &self.params)?;
        results.iter().map(|x| x.to_host(crate::memory::MOST)).collect()
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}(", self.op.method)?;
        for operand in &self.operands {
            let Some(Operand { data, views }) = operand else {
                write!(f, "none, ")?;
                continue;
            };
            write!(f, "{}{:?} {}, ", data.dtype(), data.shape(), shown(data))?;
            for (op, params) in views {
                write!(f, "by {} {params:?}, ", op.method)?;
            }
        }
        write!(f, "{:?})", self.params)
    }
}

/// Returns the elements of a tensor as text, if they are few.
pub fn shown(x: &TensorData) -> String {
    match x.dtype() {
        DataType::String => format!("{:?}", x.iter_str().take(20).collect::<Vec<_>>()),
        dtype if dtype.is_compute() => {
            format!("{:?}", bb::conformance::numbers_of(x).iter().take(40).collect::<Vec<_>>())
        }
        _ => format!("{:?}", x.bytes().into_iter().flatten().take(40).collect::<Vec<_>>()),
    }
}

impl Operand {
    fn bring(&self, on: &BackendHandle) -> Result<Value, Error> {
        let mut x = on.runtime().constant(&self.data)?;
        for (op, params) in &self.views {
            x = on.call(op, &[Some(&x)], params)?.into_vec().remove(0);
        }
        Ok(x)
    }
}

/// Makes indices small, so that most are valid.
fn modulo(x: &TensorData, by: i64) -> TensorData {
    let numbers: Vec<f64> = bb::conformance::numbers_of(x).iter().map(|n| n % by as f64).collect();
    bb::conformance::host_numbers(x.dtype(), x.shape(), &numbers)
}

/// Draws the shapes of an operation's operands.
fn shapes(method: &str, operands: usize, spatial: usize, draw: &mut Draw<'_>) -> Vec<Vec<usize>> {
    let any = draw.shape(4);
    let Some((_, row)) = SHAPES.iter().find(|(name, _)| *name == method) else {
        return (0..operands).map(|_| broadcasting(method, &any, draw)).collect();
    };
    let mut letters = [0; 26].map(|_: usize| draw.extent());
    // Results of convolutions have extents of at least 1 more often if filters are small.
    letters[usize::from(b'k' - b'a')] = 1 + draw.below(3);
    let wide: Vec<usize> = (0..spatial).map(|_| draw.extent()).collect();
    let kernel: Vec<usize> = (0..spatial).map(|_| 1 + draw.below(3)).collect();
    let extents = |token: &str| match token {
        "*" => any.clone(),
        "S" => wide.clone(),
        "K" => kernel.clone(),
        _ => match (token.parse(), token.as_bytes()) {
            (Ok(extent), _) => vec![extent],
            (_, [letter]) => vec![letters[usize::from(letter - b'a') % 26]],
            _ => Vec::new(),
        },
    };
    row.split(',').map(|operand| operand.split_whitespace().flat_map(extents).collect()).collect()
}

/// Draws a shape that broadcasts to `shape`, for operations that broadcast; for others, `shape`.
fn broadcasting(method: &str, shape: &[usize], draw: &mut Draw<'_>) -> Vec<usize> {
    if method.starts_with("scatter") || method.starts_with("gather") || draw.below(2) == 0 {
        return shape.to_vec();
    }
    let from = if draw.below(3) == 0 { draw.below(shape.len() + 1) } else { 0 };
    shape[from..].iter().map(|&extent| if draw.below(3) == 0 { 1 } else { extent }).collect()
}

/// Draws a parameter that is valid more often than not.
fn usual(op: &OpSpec, spec: &ParamSpec, spatial: usize, draw: &mut Draw<'_>) -> Param<'static> {
    if spec.name == "seed" {
        // Without a seed, each call gives other numbers.
        return Param::OptInt(Some(draw.below(3) as i64));
    }
    if let Some(default) = spec.default
        && draw.below(3) > 0
    {
        return default();
    }
    let count = match (spec.name, op.method) {
        ("pads", "pad") => 2 * draw.below(5),
        ("pads", _) => 2 * spatial,
        _ => spatial,
    };
    let list = |draw: &mut Draw<'_>, from: usize| -> Vec<usize> {
        (0..count).map(|_| from + draw.below(3)).collect()
    };
    match spec.kind {
        ParamKind::Int if spec.name == "axis" => Param::Int(draw.below(9) as i64 - 4),
        ParamKind::Int => Param::Int(draw.below(5) as i64),
        ParamKind::OptInt => Param::OptInt(Some(draw.below(5) as i64)),
        ParamKind::Float => Param::Float(draw.small_float()),
        ParamKind::OptFloat => Param::OptFloat(Some(draw.small_float())),
        ParamKind::Bool => Param::Bool(draw.below(2) == 0),
        ParamKind::Ints => {
            let from = usize::from(!spec.name.contains("pad"));
            Param::Ints(list(draw, from).into_iter().map(|i| i as i64).collect())
        }
        ParamKind::Floats => Param::Floats((0..count).map(|_| draw.small_float()).collect()),
        ParamKind::Extents => Param::Extents(draw.shape(4).into()),
        ParamKind::Type => Param::Type(draw.dtype()),
        ParamKind::OptType => Param::OptType(Some(draw.dtype())),
        ParamKind::Round => Param::Round(RoundMode::Nearest),
        ParamKind::Text => Param::Text(Cow::Borrowed(draw.one(&WORDS).copied().unwrap_or("none"))),
        _ => Param::Data(Cow::Owned(TensorData::scalar(1f32))),
    }
}

/// Draws a parameter that is seldom valid, often by a change of the present one.
fn hostile(spec: &ParamSpec, present: &Param<'static>, draw: &mut Draw<'_>) -> Param<'static> {
    match (spec.kind, present) {
        (ParamKind::Int, _) => Param::Int(draw.int()),
        (ParamKind::OptInt, _) => Param::OptInt(Some(draw.int())),
        (ParamKind::Float, _) => Param::Float(draw.float()),
        (ParamKind::OptFloat, _) => Param::OptFloat(Some(draw.float())),
        (ParamKind::Ints, Param::Ints(ints)) => {
            let mut ints = ints.to_vec();
            match draw.below(5) {
                0 => ints.push(draw.int()),
                1 => _ = ints.pop(),
                _ => {
                    let int = draw.int();
                    draw.one_mut(&mut ints).into_iter().for_each(|slot| *slot = int);
                }
            }
            Param::Ints(ints.into())
        }
        (ParamKind::Extents, Param::Extents(extents)) => {
            let mut extents = extents.to_vec();
            match draw.below(4) {
                0 => extents.push(draw.any_extent()),
                _ => {
                    let extent = draw.any_extent();
                    draw.one_mut(&mut extents).into_iter().for_each(|slot| *slot = extent);
                }
            }
            Param::Extents(extents.into())
        }
        (ParamKind::Text, _) => {
            Param::Text(Cow::Borrowed(draw.one(&["", "é", "none", "cubic"]).copied().unwrap_or("")))
        }
        (ParamKind::Data, _) => {
            let (dtype, shape) = (draw.dtype(), draw.shape(4));
            Param::Data(Cow::Owned(draw.tensor(dtype, &shape, true)))
        }
        // A parameter of another kind.
        (ParamKind::Bool, _) => Param::Int(draw.int()),
        (ParamKind::Type, _) => Param::Type(draw.one(DataType::ALL).copied().unwrap_or(DataType::String)),
        (ParamKind::OptType, _) => Param::OptType(draw.one(DataType::ALL).copied()),
        _ => present.clone(),
    }
}
