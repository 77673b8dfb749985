//! Every kind of type can be a backend.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs)]
#![expect(dead_code, clippy::indexing_slicing, reason = "a test")]
use bb::Declared;
use bb::ext::Nn;

#[derive(bb::Backend, Default)]
struct Unit;
ui_tests::backend!(Unit);

#[derive(bb::Backend, Default)]
#[bb(name = "tuple-2", version = "2.0.0")]
struct Tuple(u8, String);
ui_tests::backend!(Tuple);

#[derive(bb::Backend, Default)]
#[bb(extensions(Nn, Llm))]
struct NamedFields {
    threads: usize,
}
ui_tests::backend!(NamedFields);

#[bb::native]
impl Nn for NamedFields {
    fn relu(&self, x: &ui_tests::Handle) -> Result<ui_tests::Handle, bb::Error> {
        let _ = self.threads;
        Ok(x.clone())
    }
}
#[bb::native]
impl bb::ext::Llm for NamedFields {}

#[derive(bb::Backend, Default)]
#[bb(name = "either")]
enum Either {
    #[default]
    Left,
    Right {
        weight: u8,
    },
}
ui_tests::backend!(Either);

fn main() {
    assert_eq!((Unit::NAME, Unit::PATH.rsplit("::").next()), ("unit", Some("Unit")));
    assert_eq!((Tuple::NAME, Tuple::VERSION), ("tuple-2", "2.0.0"));
    assert_eq!(NamedFields::NAME, "named-fields");
    assert_eq!(NamedFields::FAMILIES.len(), 2);
    assert_eq!(<NamedFields as bb::ext::Native<bb::ext::NnOp>>::NATIVE, [bb::ext::NnOp::Relu]);
    assert!(NamedFields::FAMILIES[0].native().contains(bb::ext::NnOp::Relu as u16));
    assert!(!NamedFields::FAMILIES[0].native().contains(bb::ext::NnOp::Softmax as u16));
    assert!(matches!(Either::create(&bb::OpenOptions::default()), Ok(Either::Left)));
    assert_eq!((Tuple::default().0, Tuple::default().1), (0, String::new()));
    if let Either::Right { weight } = Either::Left {
        assert_eq!(weight, 0);
    }
}
