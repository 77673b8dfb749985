//! The guide for authors of backends, against the sources.
#![expect(clippy::expect_used, reason = "tests")]

const GUIDE: &str = include_str!("../../../bb/docs/writing-a-backend.md");
const COMPLETE: &str = include_str!("../conformance/newcomer/kernels.rs");

/// Writes the type of an operand or a parameter as authors write it.
fn written(kind: &str) -> &'static str {
    match kind {
        "Tensor" => "&Tensor",
        "Optional" => "Option<&Tensor>",
        "Tensors" => "&[&Tensor]",
        "Int" => "i64",
        "Bool" => "bool",
        "Ints" => "&[i64]",
        "Extents" => "&[usize]",
        "Type" => "DataType",
        "Round" => "RoundMode",
        "Data" => "&TensorData",
        other => panic!("the guide has no type for `{other}`"),
    }
}

fn line(method: &str, arguments: &[(&str, &str)], output: &str) -> String {
    let output = if output == "Tensors" { "Vec<Tensor>" } else { "Tensor" };
    let arguments: Vec<String> =
        arguments.iter().map(|(name, kind)| format!("{name}: {}", written(kind))).collect();
    format!("fn {method}(&self, {}) -> Result<{output}, Error>;", arguments.join(", "))
}

macro_rules! signatures {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        fn signatures() -> Vec<String> {
            vec![$( line(
                stringify!($method),
                &[$( (stringify!($input), stringify!($kind)), )* $($( (stringify!($param), stringify!($pkind)), )+)?],
                stringify!($output),
            ) ),*]
        }
    };
}

bb_ir::for_each_primitive!(signatures);

/// Returns the first code block behind a title.
fn block(title: &str) -> &'static str {
    let (_, rest) = GUIDE.split_once(title).expect("the title");
    let (_, rest) = rest.split_once("```").expect("a block").1.split_once('\n').expect("its language");
    rest.split_once("```").expect("its end").0
}

#[test]
fn the_signatures_are_those_of_the_trait() {
    let mut expected = signatures();
    assert_eq!(expected.len(), bb::Primitive::ALL.len());
    expected.push("fn to_host(&self, x: &Tensor) -> Result<TensorData, Error>;".to_owned());
    assert_eq!(block("\n## The 30 signatures\n").lines().collect::<Vec<_>>(), expected);
}

/// The conformance suite runs on the file (`tests/tests/conformance/newcomer`).
#[test]
fn the_complete_backend_is_the_file_that_is_tested() {
    assert_eq!(block("\n## A complete backend\n"), COMPLETE);
}
