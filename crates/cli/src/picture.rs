//! A picture of disorder: each row's distance from its sorted position, over its place of arrival.
//!
//! Rows are too many to be points. The plane is cut into cells, and the shade of a cell says how
//! many rows it holds.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Once;

use bedload_sortedness::Sortedness;
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::chart::ChartBuilder;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::Rectangle;
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, WHITE, register_font};

use crate::exit::{Failure, Result};
use crate::figures::{grouped, rows_text};
use crate::output::Destination;

const WIDTH: u32 = 1200;
const HEIGHT: u32 = 640;

/// Cells across and up.
const COLUMNS: usize = 280;
const ROWS: usize = 140;

const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(0x22, 0x2b, 0x36);
const FAINT: RGBColor = RGBColor(0xd9, 0xdf, 0xe6);

/// From few rows to many.
const SHADES: [RGBColor; 6] = [
    RGBColor(0xc6, 0xdb, 0xef),
    RGBColor(0x9e, 0xca, 0xe1),
    RGBColor(0x6b, 0xae, 0xd6),
    RGBColor(0x31, 0x82, 0xbd),
    RGBColor(0x08, 0x51, 0x9c),
    RGBColor(0x08, 0x30, 0x6b),
];

/// A format of pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Svg,
    Png,
}

/// The name of a picture's file, as it is given on the command line.
pub(crate) fn parse_name(text: &str) -> std::result::Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match Format::of(&path) {
        Some(_) => Ok(path),
        None => Err("the name must end in .svg or .png".to_owned()),
    }
}

impl Format {
    /// The format that a file's name asks for.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        if extension.eq_ignore_ascii_case("svg") {
            Some(Self::Svg)
        } else if extension.eq_ignore_ascii_case("png") {
            Some(Self::Png)
        } else {
            None
        }
    }
}

/// The contents of a picture.
pub(crate) struct Picture {
    title: String,
    subtitle: String,
    rows: f64,
    /// The most negative distance shown and the largest.
    lowest: f64,
    highest: f64,
    /// Rows in each cell: `COLUMNS` of `ROWS`, from the most negative distance up.
    cells: Vec<u64>,
}

impl Picture {
    /// Counts the rows of each cell. `order` holds the places of arrival in sorted order.
    pub(crate) fn new(title: &str, measured: &Sortedness, order: &[usize]) -> Self {
        let rows = order.len().max(1) as f64;
        let distances = || {
            order
                .iter()
                .zip(0..)
                .map(|(&arrival, rank)| distance(rank, arrival))
        };
        // The horizontal through 0 is always in the picture, and has some room on either side.
        let lowest = distances().fold(-1.0, f64::min);
        let highest = distances().fold(1.0, f64::max);
        let mut cells = vec![0; COLUMNS * ROWS];
        for (distance, &arrival) in distances().zip(order) {
            let across = arrival as f64 / rows;
            let up = (distance - lowest) / (highest - lowest);
            cells[cell(across, COLUMNS) * ROWS + cell(up, ROWS)] += 1;
        }
        let subtitle = format!(
            "{}, K = {} ({:.1} %), L = {} ({:.2} %)",
            rows_text(measured.rows),
            grouped(measured.k),
            100.0 * measured.k_share(),
            grouped(measured.l),
            100.0 * measured.l_share(),
        );
        Self {
            title: title.to_owned(),
            subtitle,
            rows,
            lowest,
            highest,
            cells,
        }
    }

    /// Writes the picture to `path`, in the format that its name asks for.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let bytes = match Format::of(path) {
            Some(Format::Svg) => self.svg(),
            Some(Format::Png) => self.png(),
            None => {
                return Err(Failure::usage(format!(
                    "{}: must end in .svg or .png",
                    path.display()
                )));
            }
        };
        let bytes = bytes.map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
        Destination::file(path)
            .and_then(|mut file| {
                file.write_all(&bytes)?;
                file.finish()
            })
            .map_err(|error| Failure::io(path, &error))
    }

    fn svg(&self) -> Result<Vec<u8>, String> {
        let mut text = String::new();
        self.draw(SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area())?;
        Ok(text.into_bytes())
    }

    fn png(&self) -> Result<Vec<u8>, String> {
        let mut pixels = vec![0; WIDTH as usize * HEIGHT as usize * 3];
        self.draw(BitMapBackend::with_buffer(&mut pixels, (WIDTH, HEIGHT)).into_drawing_area())?;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(BufWriter::new(&mut bytes), WIDTH, HEIGHT);
        encoder.set_color(png::ColorType::Rgb);
        encoder
            .write_header()
            .and_then(|mut writer| {
                writer.write_image_data(&pixels)?;
                writer.finish()
            })
            .map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    fn draw<B: DrawingBackend>(&self, area: DrawingArea<B, plotters::coord::Shift>) -> Result<(), String> {
        register_fonts();
        self.draw_chart(&area)
            .and_then(|()| area.present())
            .map_err(|error| error.to_string())
    }

    fn draw_chart<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, plotters::coord::Shift>,
    ) -> Result<(), plotters::drawing::DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        let text = |size: u32| (FONT, size).into_font().color(&INK);
        let area = area
            .margin(12, 0, 0, 0)
            .titled(&self.title, text(24))?
            .titled(&self.subtitle, text(18))?;
        let mut chart = ChartBuilder::on(&area)
            .margin(16)
            .margin_right(32)
            .x_label_area_size(48)
            .y_label_area_size(84)
            .build_cartesian_2d(0.0..self.rows, self.lowest..self.highest)?;
        chart
            .configure_mesh()
            .x_desc("place of arrival (rows)")
            .y_desc("sorted position less place of arrival (rows)")
            .x_labels(10)
            .y_labels(9)
            .x_label_formatter(&|x| signed(*x))
            .y_label_formatter(&|y| signed(*y))
            .label_style(text(14))
            .axis_desc_style(text(16))
            .axis_style(INK)
            .bold_line_style(FAINT)
            .light_line_style(WHITE)
            .draw()?;

        let most = self.cells.iter().copied().max().unwrap_or(0);
        let (width, height) = (
            self.rows / COLUMNS as f64,
            (self.highest - self.lowest) / ROWS as f64,
        );
        for column in 0..COLUMNS {
            // Neighbours of one shade are drawn as one, which keeps the SVG small.
            let shades: Vec<Option<RGBColor>> = (0..ROWS)
                .map(|row| shade(self.cells[column * ROWS + row], most))
                .collect();
            let mut row = 0;
            for same in shades.chunk_by(|a, b| a == b) {
                if let Some(shade) = same[0] {
                    let (left, bottom) = (column as f64 * width, row as f64 * height + self.lowest);
                    let corners = [
                        (left, bottom),
                        (left + width, bottom + same.len() as f64 * height),
                    ];
                    chart.draw_series([Rectangle::new(corners, shade.filled())])?;
                }
                row += same.len();
            }
        }
        Ok(())
    }
}

/// How far above its place of arrival a row belongs.
fn distance(rank: usize, arrival: usize) -> f64 {
    rank as f64 - arrival as f64
}

/// The number of the cell in which a share from 0 to 1 falls.
fn cell(share: f64, cells: usize) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from float saturates, and the number of a cell is small"
    )]
    let cell = (share * cells as f64) as usize;
    cell.min(cells - 1)
}

/// The shade of a cell, by the logarithm of its rows: the trickle that is far from home shows
/// beside the stream.
fn shade(rows: u64, most: u64) -> Option<RGBColor> {
    if rows == 0 {
        return None;
    }
    let share = (rows as f64).ln() / (most.max(2) as f64).ln();
    Some(SHADES[cell(share, SHADES.len())])
}

/// A whole number with its thousands set apart.
fn signed(value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a cast from float saturates; labels are rows"
    )]
    let value = value.round() as i64;
    let sign = if value < 0 { "−" } else { "" };
    format!("{sign}{}", grouped(value.unsigned_abs()))
}

/// Gives plotters a font of its own, so that nothing need be installed.
fn register_fonts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let registered = register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
        debug_assert!(registered.is_ok(), "the font is one that can be read");
    });
}
