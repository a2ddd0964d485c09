//! The error function.

/// Error function, at most 2 ULP off.
#[inline(always)]
#[must_use]
pub fn erf(x: f32) -> f32 {
    let a = x.abs();
    let z = x * x;
    // The part beyond x itself: its rounding errors weigh less. Sums in pairs wait less for each other than Horner's.
    let z2 = z * z;
    let low = (0.128_379_17 + z * -0.376_126_26) + z2 * (0.112_835_854 + z * -0.026_853_81);
    let rest = low + z2 * z2 * ((0.005_188_327_7 + z * -0.000_801_019_25) + z2 * 7.853_858e-5);
    let near = x + x * rest;
    let far = (1.0 - complement(a)).copysign(x);
    if a < 1.0 { near } else { far }
}

/// 1 - erf(a) for a >= 1, absolute error 6e-8. From 3.97 on it is next to 0.
#[inline(always)]
fn complement(a: f32) -> f32 {
    let t = (if a > 3.97 { 3.97 } else { a }) - 2.5;
    let t2 = t * t;
    let t4 = t2 * t2;
    let a = (0.000_406_921 + t * -0.002_178_269_7) + t2 * (0.005_447_06 + t * -0.008_350_724);
    let b = (0.008_612_827 + t * -0.006_112_792) + t2 * (0.002_823_671_6 + t * -0.000_554_790_7);
    let c = (-0.000_291_932_58 + t * 0.000_266_517_3) + t2 * (-5.943_893e-5 + t * -1.630_929_5e-5);
    let d = 8.713_007e-6 + t * -6.961_729_5e-7;
    (a + t4 * b) + t4 * t4 * (c + t4 * d)
}
