//! Tests the operands and the readers of regions.

use super::*;

#[test]
fn an_operand_that_varies_is_transposed_whatever_its_present_extents() {
    // A gate as in a squeeze-and-excite block, with shape [1, 1, 1, c].
    becomes(
        &[&[1, 3, 4, 5], &[1, 1, 1, 3]],
        |on, xs| {
            let x = on.transpose(&xs[0], &LAST)?;
            Ok(vec![on.transpose(&on.mul(&x, &xs[1])?, &SECOND)?])
        },
        1,
        "%2: f32[1, 4, 5, 3] = transpose(input0) {perm=[0, 2, 3, 1]}\n\
         %3: f32[1, 4, 5, 3] = mul(%2, input1)\n\
         %4: f32[1, 3, 4, 5] = transpose(%3) {perm=[0, 3, 1, 2]}\n\
         return %4\n",
        "%5: f32[1, 3, 1, 1] = transpose(input1) {perm=[0, 3, 1, 2]}\n\
         %6: f32[1, 3, 4, 5] = mul(input0, %5)\n\
         return %6\n",
    );
}

#[test]
fn operands_of_lower_rank_get_the_dimensions_that_they_lack() {
    // Operands of rank 0, 1, 2 and 3, none of them constant.
    becomes(
        &[&[1, 3, 4, 5], &[], &[3], &[5, 3], &[4, 5, 1]],
        |on, xs| {
            let mut x = on.transpose(&xs[0], &LAST)?;
            for operand in &xs[1..] {
                x = on.mul(&x, operand)?;
            }
            Ok(vec![on.transpose(&x, &SECOND)?])
        },
        4,
        "%5: f32[1, 4, 5, 3] = transpose(input0) {perm=[0, 2, 3, 1]}\n\
         %6: f32[1, 4, 5, 3] = mul(%5, input1)\n\
         %7: f32[1, 4, 5, 3] = mul(%6, input2)\n\
         %8: f32[1, 4, 5, 3] = mul(%7, input3)\n\
         %9: f32[1, 4, 5, 3] = mul(%8, input4)\n\
         %10: f32[1, 3, 4, 5] = transpose(%9) {perm=[0, 3, 1, 2]}\n\
         return %10\n",
        "%11: f32[1, 3, 4, 5] = mul(input0, input1)\n\
         %12: f32[1, 3, 1, 1] = unsqueeze(input2) {axes=[0, 2, 3]}\n\
         %13: f32[1, 3, 4, 5] = mul(%11, %12)\n\
         %14: f32[3, 5] = transpose(input3) {perm=[1, 0]}\n\
         %15: f32[1, 3, 1, 5] = unsqueeze(%14) {axes=[0, 2]}\n\
         %16: f32[1, 3, 4, 5] = mul(%13, %15)\n\
         %17: f32[1, 4, 5] = transpose(input4) {perm=[2, 0, 1]}\n\
         %18: f32[1, 1, 4, 5] = unsqueeze(%17) {axes=[0]}\n\
         %19: f32[1, 3, 4, 5] = mul(%16, %18)\n\
         return %19\n",
    );
}

#[test]
fn constants_are_permuted_unless_they_are_single_elements() {
    becomes(
        &[&[1, 3, 4, 5]],
        |on, xs| {
            let mut x = on.transpose(&xs[0], &LAST)?;
            for shape in [&[][..], &[1, 1, 1, 1], &[1, 4, 5, 3], &[4, 1, 1]] {
                x = on.mul(&x, &constant(on, shape))?;
            }
            Ok(vec![on.transpose(&x, &SECOND)?])
        },
        4,
        "%1: f32[1, 4, 5, 3] = transpose(input0) {perm=[0, 2, 3, 1]}\n\
         %3: f32[1, 4, 5, 3] = mul(%1, constant0)\n\
         %5: f32[1, 4, 5, 3] = mul(%3, constant1)\n\
         %7: f32[1, 4, 5, 3] = mul(%5, constant2)\n\
         %9: f32[1, 4, 5, 3] = mul(%7, constant3)\n\
         %10: f32[1, 3, 4, 5] = transpose(%9) {perm=[0, 3, 1, 2]}\n\
         return %10\n",
        "%11: f32[1, 3, 4, 5] = mul(input0, constant0)\n\
         %12: f32[1, 3, 4, 5] = mul(%11, constant1)\n\
         %13: f32[1, 3, 4, 5] = transpose(constant2) {perm=[0, 3, 1, 2]}\n\
         %14: f32[1, 3, 4, 5] = mul(%12, %13)\n\
         %15: f32[1, 4, 1] = transpose(constant3) {perm=[2, 0, 1]}\n\
         %16: f32[1, 1, 4, 1] = unsqueeze(%15) {axes=[0]}\n\
         %17: f32[1, 3, 4, 5] = mul(%14, %16)\n\
         return %17\n",
    );
}

#[test]
fn comparisons_and_selections_are_moved() {
    becomes(
        &[&[1, 3, 4, 5], &[1, 3, 4, 5]],
        |on, xs| {
            let (x, y) = (on.transpose(&xs[0], &LAST)?, on.transpose(&xs[1], &LAST)?);
            let chosen = on.r#where(&on.greater(&x, &y)?, &x, &constant(on, &[5, 1]))?;
            Ok(vec![on.transpose(&chosen, &SECOND)?])
        },
        2,
        "%2: f32[1, 4, 5, 3] = transpose(input0) {perm=[0, 2, 3, 1]}\n\
         %3: f32[1, 4, 5, 3] = transpose(input1) {perm=[0, 2, 3, 1]}\n\
         %4: bool[1, 4, 5, 3] = greater(%2, %3)\n\
         %6: f32[1, 4, 5, 3] = where(%4, %2, constant0)\n\
         %7: f32[1, 3, 4, 5] = transpose(%6) {perm=[0, 3, 1, 2]}\n\
         return %7\n",
        "%8: bool[1, 3, 4, 5] = greater(input0, input1)\n\
         %9: f32[1, 5] = transpose(constant0) {perm=[1, 0]}\n\
         %10: f32[1, 1, 1, 5] = unsqueeze(%9) {axes=[0, 2]}\n\
         %11: f32[1, 3, 4, 5] = where(%8, input0, %10)\n\
         return %11\n",
    );
}

#[test]
fn of_two_permutations_the_one_that_moves_more_goes() {
    becomes(
        &[&[1, 3, 4, 5], &[5, 1, 4, 3]],
        |on, xs| {
            let x = on.transpose(&xs[0], &LAST)?;
            let y = on.transpose(&xs[1], &[1, 2, 0, 3])?;
            Ok(vec![on.transpose(&on.add(&x, &y)?, &SECOND)?])
        },
        1,
        "%2: f32[1, 4, 5, 3] = transpose(input0) {perm=[0, 2, 3, 1]}\n\
         %3: f32[1, 4, 5, 3] = transpose(input1) {perm=[1, 2, 0, 3]}\n\
         %4: f32[1, 4, 5, 3] = add(%2, %3)\n\
         %5: f32[1, 3, 4, 5] = transpose(%4) {perm=[0, 3, 1, 2]}\n\
         return %5\n",
        "%6: f32[1, 3, 4, 5] = transpose(input1) {perm=[1, 3, 2, 0]}\n\
         %7: f32[1, 3, 4, 5] = add(input0, %6)\n\
         return %7\n",
    );
}

#[test]
fn a_reader_with_another_permutation_reads_both_together() {
    becomes(
        &[&[1, 3, 4, 5]],
        |on, xs| {
            let x = on.neg(&on.transpose(&xs[0], &LAST)?)?;
            Ok(vec![on.transpose(&x, &[0, 1, 3, 2])?])
        },
        1,
        "%1: f32[1, 4, 5, 3] = transpose(input0) {perm=[0, 2, 3, 1]}\n\
         %2: f32[1, 4, 5, 3] = neg(%1)\n\
         %3: f32[1, 4, 3, 5] = transpose(%2) {perm=[0, 1, 3, 2]}\n\
         return %3\n",
        "%4: f32[1, 3, 4, 5] = neg(input0)\n\
         %5: f32[1, 4, 3, 5] = transpose(%4) {perm=[0, 2, 1, 3]}\n\
         return %5\n",
    );
}

#[test]
fn tensors_are_joined_along_the_dimension_that_the_axis_becomes() {
    becomes(
        &[&[1, 3, 4, 5], &[1, 2, 4, 5]],
        |on, xs| {
            let (x, y) = (on.transpose(&xs[0], &LAST)?, on.transpose(&xs[1], &LAST)?);
            let joined = on.concat(&[&x, &y, &x], -1)?;
            let joined = on.concat(&[&joined, &constant(on, &[1, 4, 1, 8])], 2)?;
            Ok(vec![on.transpose(&joined, &SECOND)?])
        },
        2,
        "%2: f32[1, 4, 5, 3] = transpose(input0) {perm=[0, 2, 3, 1]}\n\
         %3: f32[1, 4, 5, 2] = transpose(input1) {perm=[0, 2, 3, 1]}\n\
         %4: f32[1, 4, 5, 8] = concat(%2, %3, %2) {axis=-1}\n\
         %6: f32[1, 4, 6, 8] = concat(%4, constant0) {axis=2}\n\
         %7: f32[1, 8, 4, 6] = transpose(%6) {perm=[0, 3, 1, 2]}\n\
         return %7\n",
        "%8: f32[1, 8, 4, 5] = concat(input0, input1, input0) {axis=1}\n\
         %9: f32[1, 8, 4, 1] = transpose(constant0) {perm=[0, 3, 1, 2]}\n\
         %10: f32[1, 8, 4, 6] = concat(%8, %9) {axis=3}\n\
         return %10\n",
    );
}
