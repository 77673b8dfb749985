//! WGSL functions that kernels call. A kernel contains only the functions that it calls.

/// The name and the source of each function. A name ends with `_`, so that it cannot occur elsewhere in a kernel.
const FUNCTIONS: &[(&str, &str)] = &[
    ("INFINITY_", "var<private> INFINITY_: u32 = 0x7f800000u;\n"),
    ("NAN_", "var<private> NAN_: u32 = 0x7fc00000u;\n"),
    ("inf_", "fn inf_() -> f32 { return bitcast<f32>(INFINITY_); }\n"),
    ("nan_", "fn nan_() -> f32 { return bitcast<f32>(NAN_); }\n"),
    ("isnan_", "fn isnan_(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }\n"),
    ("isinf_", "fn isinf_(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }\n"),
    // Maps floats to integers that have the same order. Both zeros become 0.
    (
        "order_",
        "fn order_(x: f32) -> i32 {
    let u = bitcast<u32>(x);
    return bitcast<i32>(select(u, 0x80000000u - u, u >= 0x80000000u));
}
",
    ),
    (
        "less_",
        "fn less_(a: f32, b: f32) -> bool { return !isnan_(a) && !isnan_(b) && order_(a) < order_(b); }\n",
    ),
    (
        "same_",
        "fn same_(a: f32, b: f32) -> bool { return !isnan_(a) && !isnan_(b) && order_(a) == order_(b); }\n",
    ),
    (
        "max_",
        "fn max_(a: f32, b: f32) -> f32 {
    if (isnan_(a)) { return a; }
    if (isnan_(b)) { return b; }
    return select(a, b, order_(a) < order_(b));
}
",
    ),
    (
        "min_",
        "fn min_(a: f32, b: f32) -> f32 {
    if (isnan_(a)) { return a; }
    if (isnan_(b)) { return b; }
    return select(a, b, order_(b) < order_(a));
}
",
    ),
    // Converts to an integer as x86-64 does: values out of range become the minimum integer.
    (
        "int_",
        "fn int_(x: f32) -> i32 {
    if (isnan_(x) || x >= 2147483648.0 || x < -2147483648.0) { return i32(-2147483647 - 1); }
    return i32(x);
}
",
    ),
    // Returns the low 32 bits of the integer, as if the float were first converted to a 64-bit integer.
    (
        "uint_",
        "fn uint_(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    let e = i32((u >> 23u) & 0xffu) - 127;
    if (e < 0 || e >= 63) { return 0u; }
    let m = (u & 0x7fffffu) | 0x800000u;
    var v = 0u;
    if (e < 23) { v = m >> u32(23 - e); } else if (e < 55) { v = m << u32(e - 23); }
    return select(v, 0u - v, u >= 0x80000000u);
}
",
    ),
    // Rounds to the nearest `f16`, ties to even.
    (
        "half_",
        "fn half_(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    let s = (u >> 16u) & 0x8000u;
    let a = u & 0x7fffffffu;
    if (a > 0x7f800000u) { return s | 0x7e00u; }
    if (a >= 0x477ff000u) { return s | 0x7c00u; }
    if (a >= 0x38800000u) {
        let r = a - 0x38000000u;
        return s | ((r + 0xfffu + ((r >> 13u) & 1u)) >> 13u);
    }
    if (a < 0x33000000u) { return s; }
    let e = a >> 23u;
    let m = (a & 0x7fffffu) | 0x800000u;
    let d = 126u - e;
    let q = m >> d;
    let rest = m & ((1u << d) - 1u);
    let tie = 1u << (d - 1u);
    return s | (q + u32(rest > tie || (rest == tie && (q & 1u) == 1u)));
}
",
    ),
    (
        "brain_",
        "fn brain_(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) { return (u >> 16u) | 0x40u; }
    return (u + 0x7fffu + ((u >> 16u) & 1u)) >> 16u;
}
",
    ),
    (
        "sqrt_",
        "fn sqrt_(x: f32) -> f32 {
    if (isnan_(x) || x == 0.0) { return x; }
    if (x < 0.0) { return nan_(); }
    if (isinf_(x)) { return x; }
    return sqrt(x);
}
",
    ),
    // Multiplies by 2^n for n from -252 to 254. The power is two factors, so that each is a normal number.
    (
        "scale_",
        "fn scale_(x: f32, n: i32) -> f32 {
    let h = n >> 1u;
    return x * bitcast<f32>(u32(h + 127) << 23u) * bitcast<f32>(u32(n - h + 127) << 23u);
}
",
    ),
    // The exponential, with Cody and Waite's range reduction and a polynomial from Cephes.
    (
        "exp_",
        "fn exp_(x: f32) -> f32 {
    if (isnan_(x)) { return x; }
    if (x > 88.8) { return inf_(); }
    if (x < -104.0) { return 0.0; }
    let n = floor(x * 1.44269504 + 0.5);
    let r = (x - n * 0.693359375) - n * -2.12194440e-4;
    var p = 1.9875691500e-4;
    p = p * r + 1.3981999507e-3;
    p = p * r + 8.3334519073e-3;
    p = p * r + 4.1665795894e-2;
    p = p * r + 1.6666665459e-1;
    p = p * r + 5.0000001201e-1;
    return scale_((p * r * r + r) + 1.0, i32(n));
}
",
    ),
    // Splits a float into its mantissa, between the roots of 1/2 and 2, and its exponent. The polynomial of `log_`
    // is from Cephes.
    (
        "split_",
        "fn split_(x: f32) -> vec2<f32> {
    var u = bitcast<u32>(x);
    var e = i32(u >> 23u) - 126;
    if (e == -126) {
        let shift = countLeadingZeros(u) - 8u;
        u = u << shift;
        e = -125 - i32(shift);
    }
    var m = bitcast<f32>((u & 0x7fffffu) | 0x3f000000u);
    if (m < 0.70710678) { m = m + m; e = e - 1; }
    return vec2<f32>(m, f32(e));
}
",
    ),
    // Returns the logarithm of 1 + f for f from -0.3 to 0.42.
    (
        "near_",
        "fn near_(f: f32) -> f32 {
    let z = f * f;
    var p = 7.0376836292e-2;
    p = p * f - 1.1514610310e-1;
    p = p * f + 1.1676998740e-1;
    p = p * f - 1.2420140846e-1;
    p = p * f + 1.4249322787e-1;
    p = p * f - 1.6668057665e-1;
    p = p * f + 2.0000714765e-1;
    p = p * f - 2.4999993993e-1;
    p = p * f + 3.3333331174e-1;
    return f + (p * f * z - 0.5 * z);
}
",
    ),
    (
        "log_",
        "fn log_(x: f32) -> f32 {
    let u = bitcast<u32>(x);
    if (isnan_(x) || u == 0x7f800000u) { return x; }
    if ((u & 0x7fffffffu) == 0u) { return -inf_(); }
    if (u >= 0x80000000u) { return nan_(); }
    let s = split_(x);
    return near_(s.x - 1.0) + s.y * -2.12194440e-4 + s.y * 0.693359375;
}
",
    ),
    // Computes a power with a nonnegative integer exponent by squaring. It is exact if the result is small.
    (
        "whole_",
        "fn whole_(x: f32, n: u32) -> f32 {
    var r = 1.0; var s = x; var m = n;
    loop {
        if ((m & 1u) == 1u) { r = r * s; }
        m = m >> 1u;
        if (m == 0u) { break; }
        s = s * s;
    }
    return r;
}
",
    ),
    // The special cases of C11 annex F.10.4.4. `odd` and `even` say whether the exponent is an odd or an even
    // integer.
    (
        "power_",
        "fn power_(x: f32, e: f32, odd: bool, even: bool) -> f32 {
    let a = bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu);
    let negative = bitcast<u32>(x) >= 0x80000000u;
    if (e == 0.0 && !isnan_(e)) { return 1.0; }
    if (bitcast<u32>(x) == 0x3f800000u) { return 1.0; }
    if (isnan_(x)) { return x; }
    if (isnan_(e)) { return e; }
    let down = e < 0.0;
    if (isinf_(e)) {
        if (a == 1.0) { return 1.0; }
        return select(0.0, inf_(), (a > 1.0) != down);
    }
    if (a == 0.0 || isinf_(a)) {
        let r = select(0.0, inf_(), (a == 0.0) == down);
        return select(r, -r, negative && odd);
    }
    if (negative && !odd && !even) { return nan_(); }
    if ((odd || even) && abs(e) <= 16.0) {
        let r = whole_(x, u32(abs(e)));
        return select(r, 1.0 / r, down);
    }
    if (abs(e) == 0.5) {
        let r = sqrt_(a);
        return select(r, 1.0 / r, down);
    }
    let r = exp_(e * log_(a));
    return select(r, -r, negative && odd);
}
",
    ),
    (
        "pow_",
        "fn pow_(x: f32, e: f32) -> f32 {
    let big = abs(e) >= 16777216.0;
    let whole = big || e == floor(e);
    let odd = whole && !big && (i32(select(e, 0.0, big || isnan_(e))) & 1) == 1;
    return power_(x, e, odd, whole && !odd);
}
",
    ),
    (
        "powfi_",
        "fn powfi_(x: f32, e: i32) -> f32 { return power_(x, f32(e), (e & 1) == 1, (e & 1) == 0); }\n",
    ),
    (
        "powfu_",
        "fn powfu_(x: f32, e: u32) -> f32 { return power_(x, f32(e), (e & 1u) == 1u, (e & 1u) == 0u); }\n",
    ),
    (
        "powu_",
        "fn powu_(x: i32, e: u32) -> i32 {
    var r = 1; var s = x; var m = e;
    while (m != 0u) {
        if ((m & 1u) == 1u) { r = r * s; }
        s = s * s;
        m = m >> 1u;
    }
    return r;
}
",
    ),
    // A negative power is 1 over the power, which truncates to 0 unless the base is 1 or -1. The base 0 was
    // refused before.
    (
        "powi_",
        "fn powi_(x: i32, e: i32) -> i32 {
    if (e >= 0) { return powu_(x, u32(e)); }
    if (x == 1) { return 1; }
    if (x == -1) { return select(1, -1, (e & 1) == 1); }
    return 0;
}
",
    ),
];

/// Returns whether a text contains a name that is not the end of a longer name.
fn calls(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Appends the functions that a kernel calls, directly or indirectly.
pub(super) fn append(out: &mut String, kernel: &str) {
    let all: Vec<&(&str, &str)> = FUNCTIONS.iter().chain(super::math::MATH).collect();
    let mut wanted: Vec<bool> = all.iter().map(|(name, _)| calls(kernel, name)).collect();
    let mut grown = true;
    while std::mem::take(&mut grown) {
        for (i, (name, _)) in all.iter().enumerate() {
            let by = all.iter().zip(&wanted).any(|((_, text), &is)| is && calls(text, name));
            if let Some(is) = wanted.get_mut(i)
                && by
                && !*is
            {
                *is = true;
                grown = true;
            }
        }
    }
    for ((_, text), _) in all.iter().zip(wanted).filter(|(_, is)| *is) {
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_contains_what_it_calls_and_nothing_else() {
        let mut out = String::new();
        append(&mut out, "y = exp_(x);");
        assert!(out.contains("fn exp_(") && out.contains("fn scale_(") && out.contains("fn inf_("));
        assert!(!out.contains("fn log_(") && !out.contains("fn nan_("), "{out}");
    }
}
