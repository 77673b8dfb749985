//! WGSL functions of floats. The polynomials are from the single-precision Cephes library (S. Moshier), whose errors are a few units in
//! the last place.

/// The name and the source of each function.
pub(super) const MATH: &[(&str, &str)] = &[
    (
        "sign_",
        "fn sign_(x: f32) -> f32 {
    if (isnan_(x)) { return x; }
    return select(select(0.0, -1.0, order_(x) < 0), 1.0, order_(x) > 0);
}
",
    ),
    (
        "tanh_",
        "fn tanh_(x: f32) -> f32 {
    if (isnan_(x)) { return x; }
    let a = abs(x);
    if (a < 0.625) {
        let z = x * x;
        var p = -5.70498872745e-3;
        p = p * z + 2.06390887954e-2;
        p = p * z - 5.37397155531e-2;
        p = p * z + 1.33314422036e-1;
        p = p * z - 3.33332819422e-1;
        return p * z * x + x;
    }
    let r = select(1.0 - 2.0 / (exp_(2.0 * min(a, 10.0)) + 1.0), 1.0, a > 9.5);
    return select(r, -r, x < 0.0);
}
",
    ),
    (
        "sigmoid_",
        "fn sigmoid_(x: f32) -> f32 {
    if (isnan_(x)) { return x; }
    let e = exp_(-abs(x));
    return select(1.0, e, x < 0.0) / (1.0 + e);
}
",
    ),
    (
        "expm1_",
        "fn expm1_(x: f32) -> f32 {
    if (isnan_(x) || x == 0.0) { return x; }
    if (abs(x) < 0.35) {
        var p = 1.9875691500e-4;
        p = p * x + 1.3981999507e-3;
        p = p * x + 8.3334519073e-3;
        p = p * x + 4.1665795894e-2;
        p = p * x + 1.6666665459e-1;
        p = p * x + 5.0000001201e-1;
        return p * x * x + x;
    }
    return exp_(x) - 1.0;
}
",
    ),
    (
        "log1p_",
        "fn log1p_(x: f32) -> f32 {
    if (isnan_(x) || bitcast<u32>(x) == 0x7f800000u) { return x; }
    // Compilers may take (1 + x) - 1 for x, so that the usual correction does not help.
    if (x > -0.29 && x < 0.41) { return near_(x); }
    return log_(1.0 + x);
}
",
    ),
    (
        "softplus_",
        "fn softplus_(x: f32) -> f32 {
    if (isnan_(x)) { return x; }
    return max(x, 0.0) + log1p_(exp_(-abs(x)));
}
",
    ),
    (
        "erf_",
        "fn erf_(x: f32) -> f32 {
    if (isnan_(x)) { return x; }
    let a = abs(x);
    if (a < 1.0) {
        let z = x * x;
        var p = 7.853861353153693e-5;
        p = p * z - 8.010193625184903e-4;
        p = p * z + 5.188327685732524e-3;
        p = p * z - 2.685381193529856e-2;
        p = p * z + 1.128358514861418e-1;
        p = p * z - 3.761262582423300e-1;
        p = p * z + 1.128379165726710e0;
        return x * p;
    }
    var r = 1.0;
    if (a < 4.0) {
        let q = 1.0 / a;
        let z = q * q;
        var p = 0.0;
        if (a < 2.0) {
            p = 2.326819970068386e-2;
            p = p * z - 1.387039388740657e-1;
            p = p * z + 3.687424674597105e-1;
            p = p * z - 5.824733027278666e-1;
            p = p * z + 6.210004621745983e-1;
            p = p * z - 4.944515323274145e-1;
            p = p * z + 3.404879937665872e-1;
            p = p * z - 2.741127028184656e-1;
            p = p * z + 5.638259427386472e-1;
        } else {
            p = -1.047766399936249e1;
            p = p * z + 1.297719955372516e1;
            p = p * z - 7.495518717768503e0;
            p = p * z + 2.921019019210786e0;
            p = p * z - 1.015265279202700e0;
            p = p * z + 4.218463358204948e-1;
            p = p * z - 2.820767439740514e-1;
            p = p * z + 5.641895067754075e-1;
        }
        r = 1.0 - exp_(-a * a) * q * p;
    }
    return select(r, -r, x < 0.0);
}
",
    ),
    (
        "high_",
        "fn high_(a: u32, b: u32) -> u32 {
    let al = a & 0xffffu; let ah = a >> 16u;
    let bl = b & 0xffffu; let bh = b >> 16u;
    let m = ah * bl + ((al * bl) >> 16u);
    let n = al * bh + (m & 0xffffu);
    return ah * bh + (m >> 16u) + (n >> 16u);
}
",
    ),
    // Payne and Hanek's range reduction: computes only the relevant bits of the product with 2 / pi. Returns the remainder, between
    // -pi/4 and pi/4, and the quadrant.
    (
        "angle_",
        "fn angle_(x: f32) -> vec2<f32> {
    let u = bitcast<u32>(x) & 0x7fffffffu;
    if (u < 0x3c000000u) { return vec2<f32>(x, 0.0); }
    var bits = array<u32, 8>(0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
    let m = (u & 0x7fffffu) | 0x800000u;
    let q = (u >> 23u) - 120u;
    let i = q >> 5u;
    let s = q & 31u;
    var w0 = bits[i]; var w1 = bits[i + 1u]; var w2 = bits[i + 2u];
    if (s != 0u) {
        w0 = (w0 << s) | (w1 >> (32u - s));
        w1 = (w1 << s) | (w2 >> (32u - s));
        w2 = (w2 << s) | (bits[min(i + 3u, 7u)] >> (32u - s));
    }
    let r2 = m * w2;
    let c2 = high_(m, w2);
    let l1 = m * w1;
    let r1 = l1 + c2;
    let c1 = high_(m, w1) + select(0u, 1u, r1 < l1);
    let r0 = m * w0 + c1;
    var n = r0 >> 30u;
    var h = (r0 << 2u) | (r1 >> 30u);
    var l = (r1 << 2u) | (r2 >> 30u);
    let down = h >= 0x80000000u;
    if (down) {
        n = n + 1u;
        h = ~h;
        l = ~l;
    }
    var y = (f32(h) * 2.3283064365386963e-10 + f32(l) * 5.421010862427522e-20) * 1.5707963267948966;
    if (down) { y = -y; }
    n = n & 3u;
    if (bitcast<u32>(x) >= 0x80000000u) { return vec2<f32>(-y, f32((4u - n) & 3u)); }
    return vec2<f32>(y, f32(n));
}
",
    ),
    (
        "sine_",
        "fn sine_(y: f32) -> f32 {
    let z = y * y;
    return ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1) * z * y + y;
}
",
    ),
    (
        "cosine_",
        "fn cosine_(y: f32) -> f32 {
    let z = y * y;
    return ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2) * z * z - 0.5 * z + 1.0;
}
",
    ),
    (
        "turn_",
        "fn turn_(y: f32, n: u32) -> f32 {
    let v = select(sine_(y), cosine_(y), (n & 1u) == 1u);
    return select(v, -v, (n & 2u) == 2u);
}
",
    ),
    (
        "sin_",
        "fn sin_(x: f32) -> f32 {
    if (isnan_(x) || x == 0.0) { return x; }
    if (isinf_(x)) { return nan_(); }
    let r = angle_(x);
    return turn_(r.x, u32(r.y));
}
",
    ),
    (
        "cos_",
        "fn cos_(x: f32) -> f32 {
    if (isnan_(x)) { return x; }
    if (isinf_(x)) { return nan_(); }
    let r = angle_(x);
    return turn_(r.x, u32(r.y) + 1u);
}
",
    ),
    (
        "tan_",
        "fn tan_(x: f32) -> f32 {
    if (isnan_(x) || x == 0.0) { return x; }
    if (isinf_(x)) { return nan_(); }
    let r = angle_(x);
    let y = r.x;
    let z = y * y;
    var p = 9.38540185543e-3;
    p = p * z + 3.11992232697e-3;
    p = p * z + 2.44301354525e-2;
    p = p * z + 5.34112807005e-2;
    p = p * z + 1.33387994085e-1;
    p = p * z + 3.33331568548e-1;
    let t = p * z * y + y;
    return select(t, -1.0 / t, (u32(r.y) & 1u) == 1u);
}
",
    ),
    (
        "asin_",
        "fn asin_(x: f32) -> f32 {
    if (isnan_(x)) { return x; }
    let a = abs(x);
    if (a > 1.0) { return nan_(); }
    let far = a > 0.5;
    let z = select(a * a, 0.5 * (1.0 - a), far);
    let y = select(a, sqrt(z), far);
    var p = 4.2163199048e-2;
    p = p * z + 2.4181311049e-2;
    p = p * z + 4.5470025998e-2;
    p = p * z + 7.4953002686e-2;
    p = p * z + 1.6666752422e-1;
    var r = p * z * y + y;
    if (far) { r = 1.5707963267948966 - 2.0 * r; }
    return select(r, -r, x < 0.0);
}
",
    ),
    (
        "acos_",
        "fn acos_(x: f32) -> f32 {
    if (isnan_(x)) { return x; }
    if (abs(x) > 1.0) { return nan_(); }
    if (x < -0.5) { return 3.141592653589793 - 2.0 * asin_(sqrt(0.5 * (1.0 + x))); }
    if (x > 0.5) { return 2.0 * asin_(sqrt(0.5 * (1.0 - x))); }
    return 1.5707963267948966 - asin_(x);
}
",
    ),
    (
        "atan_",
        "fn atan_(x: f32) -> f32 {
    if (isnan_(x)) { return x; }
    var a = abs(x);
    var y = 0.0;
    if (a > 2.414213562373095) {
        y = 1.5707963267948966;
        a = select(-1.0 / a, 0.0, isinf_(a));
    } else if (a > 0.4142135623730950) {
        y = 0.7853981633974483;
        a = (a - 1.0) / (a + 1.0);
    }
    let z = a * a;
    var p = 8.05374449538e-2;
    p = p * z - 1.38776856032e-1;
    p = p * z + 1.99777106478e-1;
    p = p * z - 3.33329491539e-1;
    y = y + (p * z * a + a);
    return select(y, -y, x < 0.0);
}
",
    ),
    (
        "sinh_",
        "fn sinh_(x: f32) -> f32 {
    if (isnan_(x) || isinf_(x)) { return x; }
    let a = abs(x);
    if (a <= 1.0) {
        let z = x * x;
        var p = 2.03721912945e-4;
        p = p * z + 8.33028376239e-3;
        p = p * z + 1.66667160211e-1;
        return p * z * x + x;
    }
    let h = exp_(a * 0.5);
    let r = 0.5 * h * h - 0.5 / h / h;
    return select(r, -r, x < 0.0);
}
",
    ),
    (
        "cosh_",
        "fn cosh_(x: f32) -> f32 {
    if (isnan_(x)) { return x; }
    if (isinf_(x)) { return abs(x); }
    let h = exp_(abs(x) * 0.5);
    return 0.5 * h * h + 0.5 / h / h;
}
",
    ),
    (
        "asinh_",
        "fn asinh_(x: f32) -> f32 {
    if (isnan_(x) || isinf_(x)) { return x; }
    let a = abs(x);
    var r = 0.0;
    if (a > 1500.0) {
        r = log_(a) + 0.6931471805599453;
    } else if (a < 0.5) {
        let z = a * a;
        var p = 2.0122003309e-2;
        p = p * z - 4.2699340972e-2;
        p = p * z + 7.4847586088e-2;
        p = p * z - 1.6666288134e-1;
        r = p * z * a + a;
    } else {
        r = log_(a + sqrt(a * a + 1.0));
    }
    return select(r, -r, x < 0.0);
}
",
    ),
    (
        "acosh_",
        "fn acosh_(x: f32) -> f32 {
    if (isnan_(x) || bitcast<u32>(x) == 0x7f800000u) { return x; }
    if (x < 1.0) { return nan_(); }
    if (x > 1500.0) { return log_(x) + 0.6931471805599453; }
    let z = x - 1.0;
    if (z < 0.5) {
        var p = 1.7596881071e-3;
        p = p * z - 7.5272886713e-3;
        p = p * z + 2.6454905019e-2;
        p = p * z - 1.1784741703e-1;
        p = p * z + 1.4142135263e0;
        return p * sqrt(z);
    }
    return log_(x + sqrt(z * (x + 1.0)));
}
",
    ),
    (
        "atanh_",
        "fn atanh_(x: f32) -> f32 {
    if (isnan_(x)) { return x; }
    let a = abs(x);
    if (a > 1.0) { return nan_(); }
    if (a == 1.0) { return select(inf_(), -inf_(), x < 0.0); }
    if (a < 0.5) {
        let z = x * x;
        var p = 1.81740078349e-1;
        p = p * z + 8.24370301058e-2;
        p = p * z + 1.46691431730e-1;
        p = p * z + 1.99782164500e-1;
        p = p * z + 3.33337300303e-1;
        return p * z * x + x;
    }
    return 0.5 * log_((1.0 + x) / (1.0 - x));
}
",
    ),
];
