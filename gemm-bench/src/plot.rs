//! A suite as a picture: the share of cuBLAS, and the share of the GPU's peak, product by product.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::best;
use crate::session::Row;
use crate::suites::Size;

const SIZE: (u32, u32) = (1100, 460);
const COLORS: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 96, 40),
    RGBColor(60, 140, 70),
    RGBColor(140, 90, 170),
    RGBColor(120, 90, 70),
    RGBColor(90, 90, 90),
];

type Drawn = Result<(), Box<dyn std::error::Error + Send + Sync>>;
/// A line: its name, and a share for each product that it has one of.
type Line = (String, Vec<(usize, f64)>);

/// The plot as SVG text. `peak` is in TFLOP/s.
///
/// # Errors
///
/// What the library of plots says.
pub fn plot(suite: &str, device: &str, rows: &[&Row], peak: f64) -> Result<String, String> {
    let mut text = String::new();
    draw(&mut text, suite, device, rows, peak).map_err(|error| error.to_string())?;
    Ok(text)
}

fn draw(text: &mut String, suite: &str, device: &str, rows: &[&Row], peak: f64) -> Drawn {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(plain)?;
    let root = root.titled(&format!("{suite}: {device}"), ("sans-serif", 18)).map_err(plain)?;
    // The suite of cases has one product and many schedules; the others have many products, and the best counts.
    let by_schedule = rows.windows(2).all(|pair| pair[0].size == pair[1].size);
    let shown: Vec<&Row> = if by_schedule { by_speed(rows) } else { best(rows) };
    let label = |row: &Row| if by_schedule { row.schedule.clone() } else { short(row.size) };
    let mut places: Vec<String> = Vec::new();
    for row in &shown {
        if !places.contains(&label(row)) {
            places.push(label(row));
        }
    }
    let lines = |share: &dyn Fn(&Row) -> Option<f64>| -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for row in &shown {
            let name = format!("{} {}", row.types, row.layout);
            let Some(place) = places.iter().position(|place| *place == label(row)) else { continue };
            let Some(share) = share(row).filter(|share| (0.0..1e6).contains(share)) else { continue };
            match lines.iter_mut().find(|(other, _)| *other == name) {
                Some((_, points)) => points.push((place, share)),
                None => lines.push((name, vec![(place, share)])),
            }
        }
        lines
    };
    let (left, right) = root.split_horizontally(SIZE.0 / 2);
    panel(&left, "share of cuBLAS", &places, &lines(&|row| row.times.ratio))?;
    panel(&right, "share of the f32 peak", &places, &lines(&|row| row.of_peak(peak)))?;
    root.present().map_err(plain)
}

/// A product's extents; a cube's once.
fn short(size: Size) -> String {
    let text = size.to_string().replace(' ', "");
    match size.m == size.n && size.n == size.k {
        true => text.replacen(&format!("{m}x{m}x{m}", m = size.m), &size.m.to_string(), 1),
        false => text,
    }
}

fn by_speed<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let mut rows = rows.to_vec();
    rows.sort_by(|x, y| y.times.ms.total_cmp(&x.times.ms));
    rows
}

fn panel<B: DrawingBackend>(area: &DrawingArea<B, Shift>, title: &str, places: &[String], lines: &[Line]) -> Drawn
where
    B::ErrorType: 'static,
{
    let highest = lines.iter().flat_map(|(_, points)| points).map(|(_, share)| *share).fold(1.0, f64::max);
    let last = places.len().saturating_sub(1) as f64;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(title, ("sans-serif", 14))
        .x_label_area_size(110)
        .y_label_area_size(45)
        .build_cartesian_2d(-0.5..last + 0.5, 0.0..highest * 1.05)
        .map_err(plain)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .y_labels(12)
        .x_labels(0)
        .y_label_formatter(&|share| format!("{:.0}%", 100.0 * share))
        .draw()
        .map_err(plain)?;
    // Turned, and from the axis down: the mesh would centre them on it.
    let style = TextStyle::from(("sans-serif", 11).into_font().transform(FontTransform::Rotate90));
    let style = style.pos(Pos::new(HPos::Left, VPos::Center));
    let (left, top) = area.get_base_pixel();
    for (place, name) in places.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(place as f64, 0.0));
        area.draw_text(name, &style, (x - left, y - top + 6)).map_err(plain)?;
    }
    for (index, (name, points)) in lines.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        let points: Vec<(f64, f64)> = points.iter().map(|&(place, share)| (place as f64, share)).collect();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))
            .map_err(plain)?
            .label(name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, color.filled()))).map_err(plain)?;
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .position(SeriesLabelPosition::LowerRight)
        .draw()
        .map_err(plain)?;
    Ok(())
}

/// An error of plotters, whose own types borrow the drawing.
fn plain(error: impl std::fmt::Display) -> Box<dyn std::error::Error + Send + Sync> {
    error.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::plot;
    use crate::measure::{How, Times};
    use crate::report::best;
    use crate::session::Row;
    use crate::suites::Size;

    fn row(extent: usize, schedule: &str, ms: f64) -> Row {
        let times =
            Times { ms, cublas_ms: Some(1.0), ratio: Some(1.0 / ms), spread: 0.01, samples: 25, how: How::Stream };
        let (suite, types, layout) = ("square".into(), "f32".into(), "row,row,row".into());
        Row { suite, types, layout, size: Size::cube(extent), schedule: schedule.into(), times, equal_bits: Some(1.0) }
    }

    #[test]
    fn the_best_of_each_product_is_drawn() {
        let rows = [row(64, "slow", 2.0), row(64, "fast", 0.5), row(128, "fast", 1.0), row(128, "slow", 1.5)];
        let rows: Vec<&Row> = rows.iter().collect();
        let chosen: Vec<&str> = best(&rows).iter().map(|row| row.schedule.as_str()).collect();
        assert_eq!(chosen, ["fast", "fast"]);
        let svg = plot("square", "Some GPU", &rows, 60.0).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("128") && svg.contains("square: Some GPU"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 4, "two products, each in both panels");
    }

    #[test]
    fn schedules_on_one_product_stand_side_by_side() {
        let rows = [row(64, "slow", 2.0), row(64, "fast", 0.5)];
        let svg = plot("ladder", "Some GPU", &rows.iter().collect::<Vec<_>>(), 60.0).unwrap();
        assert!(svg.contains("slow") && svg.contains("fast"), "{svg}");
    }

    #[test]
    fn nothing_is_a_picture_too() {
        assert!(plot("square", "Some GPU", &[], 0.0).is_ok());
    }
}
