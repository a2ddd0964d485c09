use super::*;

fn n() -> Dim {
    Dim::variable(Variable::new(0, 1, 8))
}

#[test]
fn equal_sizes_have_one_normal_form() {
    assert_eq!((n() + 1) * &Dim::constant(2), n() * 2 + 2);
    assert_eq!(n() * &(n() + 3), n() * &n() + &(n() * 3));
    assert_eq!((n() * 6).floor_div(&Dim::constant(3)), n() * 2);
    assert_eq!((n() * 6).floor_div(&n()), Dim::constant(6));
    assert_eq!(n() - &n(), Dim::constant(0));
}

#[test]
fn division_rounds_to_the_named_side() {
    assert_eq!(Dim::constant(-7).floor_div(&Dim::constant(2)), Dim::constant(-4));
    assert_eq!(Dim::constant(-7).ceil_div(&Dim::constant(2)), Dim::constant(-3));
    assert_eq!(Dim::constant(-7).modulo(&Dim::constant(2)), Dim::constant(1));
    assert_eq!(floor_div(5, 0), 0);
}

#[test]
fn intervals_bound_every_value() {
    let size = (n() + 3).floor_div(&Dim::constant(2));
    assert_eq!((size.range().min, size.range().max), (2, 5));
    assert_eq!(n().minimum(&Dim::constant(9)), n());
    assert_eq!(n().maximum(&Dim::constant(9)), Dim::constant(9));
    assert_eq!(n().maximum(&Dim::constant(4)).upper_bound(), 8);
}

#[test]
fn linear_terms_are_found() {
    let index = Dim::axis(0) * 3 + &(Dim::axis(1) * 5) + 7;
    assert_eq!(index.coefficient(0), Some(3));
    assert_eq!(index.coefficient(2), Some(0));
    assert_eq!(index.floor_div(&Dim::constant(2)).coefficient(0), None);
    assert_eq!(index.without(0), Dim::axis(1) * 5 + 7);
}

#[test]
fn text_form_reads_as_mathematics() {
    assert_eq!((Dim::axis(0) * 2 - 1).to_string(), "2*i0 - 1");
    assert_eq!((n().ceil_div(&Dim::constant(2)) + 1).to_string(), "ceildiv(d0, 2) + 1");
}

#[test]
fn strides_exist_only_where_the_expression_is_linear() {
    let (i, d) = (Dim::axis(0), Dim::variable(Variable::new(0, 1, 9)));
    assert_eq!((i.clone() * 3 + 1).stride(0), Some(Dim::constant(3)));
    assert_eq!((i.clone() * &d).stride(0), Some(d));
    assert_eq!(Dim::axis(1).stride(0), Some(Dim::constant(0)));
    assert_eq!(i.modulo(&Dim::constant(3)).stride(0), None);
    assert_eq!(i.floor_div(&Dim::constant(3)).stride(0), None);
    assert_eq!((i.clone() * &i).stride(0), None);
}

#[test]
fn sizes_that_share_a_capacity_have_a_product_within_it() {
    let shared = Some(Shared { first: 0, max: 24 });
    let size = |id| Dim::variable(Variable { id, min: 0, max: 24, shared });
    let (a, b, c) = (size(0), size(1), size(2));
    let all = a.clone() * &b * &c;
    assert_eq!((all.upper_bound(), (all.clone() * 3 + &a).upper_bound()), (24, 96));
    assert_eq!((a.clone() * &c).upper_bound(), 24);
    assert_eq!((a.clone() * &a * &b).upper_bound(), 24 * 24, "a square is bounded by no product");
    let other = Dim::variable(Variable { id: 3, min: 0, max: 5, shared: Some(Shared { first: 3, max: 5 }) });
    assert_eq!((all * &other).upper_bound(), 120);
}
