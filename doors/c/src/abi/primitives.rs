//! The table of primitives, with one function for each row of the op table.

use super::values::{Data, Failure, Items, Raw, RawTensor, Results, Status};
use bb_ir::op::{Arity, OpSpec, ParamKind, Primitive};

/// Expands to the C type of an operand of each kind.
macro_rules! c_operand {
    (Tensor) => { *const RawTensor };
    (Tensors) => { Items<*const RawTensor> };
}

/// Expands to the C type of a parameter of each kind.
macro_rules! c_param {
    (Int) => { i64 };
    (Bool) => { bool };
    (Ints) => { Items<i64> };
    (Extents) => { Items<usize> };
    (Type) => { i32 };
    (Round) => { i32 };
    (Data) => { *const Data };
}

pub(crate) use {c_operand, c_param};

macro_rules! table {
    ($( $(#[doc = $doc:literal])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        /// The primitives of a backend, in the order of the op table. Primitives that are added later come at the end.
        ///
        /// Each function computes its documented result. The host has checked operands and parameters by the rules of ONNX. The function
        /// writes `count` results to `results`.
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        pub struct Primitives {
            /// The size of this structure.
            pub size: usize,
            $(
                $(#[doc = $doc])*
                pub $method: Option<unsafe extern "C" fn(
                    backend: *mut Raw, $($input: c_operand!($kind),)* $($($param: c_param!($pkind),)+)?
                    results: Results, count: usize, error: *mut Failure,
                ) -> Status>,
            )*
        }

        impl Primitives {
            /// A table without functions.
            pub const NONE: Primitives = Primitives { size: size_of::<Primitives>(), $( $method: None, )* };
        }

        const DOCS: &[&[&str]] = &[$( &[$($doc),*] ),*];

        const FIELDS: &[(&str, usize)] = &[
            ("size", 0),
            $( (bb_ir::op::method_name(stringify!($method)), std::mem::offset_of!(Primitives, $method)) ),*
        ];
    };
}

bb_ir::for_each_primitive!(table);

/// Returns the layout of the table in C.
pub(super) fn layout() -> super::Layout {
    super::Layout { name: "bb_primitives", size: size_of::<Primitives>(), fields: FIELDS, text }
}

/// Returns the C declaration of an operand.
fn operand((name, arity): &(&str, Arity)) -> String {
    match arity {
        Arity::Tensors => format!("bb_tensors {name}"),
        Arity::Tensor | Arity::Optional => format!("const bb_tensor *{name}"),
    }
}

/// Returns the C declaration of a parameter. Primitives have only parameters of these kinds.
fn param(name: &str, kind: ParamKind) -> String {
    match kind {
        ParamKind::Int => format!("int64_t {name}"),
        ParamKind::Bool => format!("bool {name}"),
        ParamKind::Ints => format!("bb_ints {name}"),
        ParamKind::Extents => format!("bb_extents {name}"),
        ParamKind::Type | ParamKind::Round => format!("int32_t {name}"),
        _ => format!("const bb_data *{name}"),
    }
}

fn function(spec: &OpSpec) -> String {
    let mut arguments = vec!["bb_backend *backend".to_owned()];
    arguments.extend(spec.inputs.iter().map(operand));
    arguments.extend(spec.params.iter().map(|p| param(p.name, p.kind)));
    arguments.extend(["bb_result *results".into(), "size_t count".into(), "bb_error *error".into()]);
    format!("int32_t (*{})({})", spec.method, arguments.join(", "))
}

fn text() -> String {
    let functions: Vec<String> = Primitive::ALL.iter().map(|op| function(op.spec())).collect();
    let mut fields: Vec<(&[&str], &str)> = vec![(&[" The size of this structure."], "size_t size")];
    fields.extend(DOCS.iter().zip(&functions).map(|(docs, function)| (*docs, function.as_str())));
    let about = [
        " The primitives. Each computes its documented result, as ONNX does. The host has checked the operands and parameters: types and",
        " shapes fit. The function makes `count` tensors, of the types and shapes that `results` states, and puts them there. Axes may be",
        " negative, and then count from the end. Operands are lent for the call: the host may release one after it, so a result that uses",
        " memory of an operand must keep this memory. All functions but `constant` may be null: the backend then does not run this",
        " primitive, and other backends get its nodes. A function that lacks only some element types returns `BB_UNSUPPORTED` for them.",
    ];
    super::declare::structure("bb_primitives", &about, &fields)
}
