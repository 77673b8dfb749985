//! The table of the crate's operators, which the planner finds when the crate is linked.

use super::*;
use bb_core::__private::inventory;
use bb_core::operator::OperatorTable;
use bb_onnx::shared::operator_table;

operator_table! {
    attention,
    blocks,
    channels_last,
    crop,
    decoding,
    distance,
    experts,
    fused,
    gates,
    group_query,
    hash,
    inverse,
    linear_attention,
    masked,
    nchwc,
    ngram_hash,
    normalize,
    older,
    packed_sequences,
    paged,
    quantized,
    rotary,
    router,
    search,
    sparse_attention,
    tokenizer,
    unfold,
    words,
}

/// Does nothing. A linker for WebAssembly includes an object file of a library only if something references a symbol in it. A reference
/// to this function includes the object file that registers the table.
#[doc(hidden)]
#[inline(never)]
pub fn linked() {}

inventory::submit! {
    OperatorTable {
        prepare: nchwc_block::prepare,
        added_attributes: &[nchwc_block::BLOCK],
        unlinked: tokenizer::unlinked,
        ..OperatorTable::new(find, served)
    }
}

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn rows_begin_where_versions_do() {
        assert_eq!(TABLE.unversioned(), []);
    }

    #[test]
    fn advice_names_the_opset_a_similar_name_and_what_to_bind() {
        let say = bb_core::operator::advice;
        let bind = |domain: &str, op: &str| {
            format!("bind a component to it: `.component(\"{domain}\", \"{op}\", …)`")
        };
        assert_eq!(
            say("", "Rellu", 17),
            format!(
                "`ai.onnx` has no such operator; the nearest name is `Relu`; {}",
                bind("ai.onnx", "Rellu")
            )
        );
        let text = say("", "Gelu", 17);
        assert!(text.starts_with("`ai.onnx` has it from opset 20 on; "), "{text}");
        let text = say("", "Upsample", 13);
        assert!(text.starts_with("`ai.onnx` took it away with opset 10"), "{text}");
        let text = say("com.microsoft", "FusedMatMull", 1);
        assert!(text.contains("the nearest name is `FusedMatMul`"), "{text}");
        assert_eq!(
            say("com.example", "Foo", 1),
            format!("no operator of the domain is known; {}", bind("com.example", "Foo"))
        );
    }
}
