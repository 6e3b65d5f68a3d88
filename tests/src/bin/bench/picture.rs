//! The curves as a picture, one panel each, all to the same scale.

use crate::report::Curve;
use std::fmt::Write;

const WIDTH: f64 = 280.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 40.0;
const GAP: f64 = 28.0;

/// An SVG document.
pub fn draw(curves: &[Curve]) -> String {
    let highest = curves.iter().flat_map(|curve| &curve.points).map(|(_, ratio)| *ratio).fold(2.0, f64::max).ceil();
    let (width, height) = (LEFT + curves.len() as f64 * (WIDTH + GAP), TOP + HEIGHT + 50.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/><text x=\"{LEFT}\" y=\"18\" font-size=\"13\">CPU of a request through the gateway, as a multiple of the bare proxy's</text>"
    );
    for (number, curve) in curves.iter().enumerate() {
        panel(&mut svg, LEFT + number as f64 * (WIDTH + GAP), curve, highest);
    }
    svg + "</svg>\n"
}

fn panel(svg: &mut String, left: f64, curve: &Curve, highest: f64) {
    let y = |ratio: f64| TOP + HEIGHT * (1.0 - ratio / highest);
    let last = curve.points.len().saturating_sub(1).max(1) as f64;
    // Steps of equal width: the numbers grow by factors.
    let x = |place: usize| left + 12.0 + (WIDTH - 24.0) * place as f64 / last;
    let mut line = |x1: f64, y1: f64, x2: f64, y2: f64, style: &str| {
        let _ = write!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>");
    };
    line(left, y(0.0), left + WIDTH, y(0.0), "stroke=\"#333\"");
    line(left, y(1.0), left + WIDTH, y(1.0), "stroke=\"#aaa\"");
    line(left, y(curve.bar), left + WIDTH, y(curve.bar), "stroke=\"#c60\" stroke-dasharray=\"4 3\"");
    let mut text = |x: f64, y: f64, anchor: &str, words: &str| {
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
    };
    text(left - 4.0, y(1.0) + 4.0, "end", "bare");
    if curve.bar > 1.0 {
        text(left - 4.0, y(curve.bar) + 4.0, "end", &format!("{} ×", curve.bar));
    }
    text(left + WIDTH / 2.0, TOP + HEIGHT + 36.0, "middle", &format!("{}, by {}", curve.of, curve.along));
    for (place, (at, ratio)) in curve.points.iter().enumerate() {
        text(x(place), TOP + HEIGHT + 18.0, "middle", &at.to_string());
        text(x(place), y(*ratio) - 8.0, "middle", &format!("{ratio:.2}"));
    }
    let points: Vec<String> = curve.points.iter().enumerate().map(|(place, (_, ratio))| format!("{:.1},{:.1}", x(place), y(*ratio))).collect();
    let _ = write!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"#05a\" stroke-width=\"2\"/>", points.join(" "));
    for point in &points {
        let (x, y) = point.split_once(',').unwrap_or_default();
        let _ = write!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"#05a\"/>");
    }
}
