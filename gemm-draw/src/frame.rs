//! Where panels are on a page, in units of the picture.

/// The column that every panel fills.
pub(crate) struct Panel;

impl Panel {
    /// Width of the page.
    pub(crate) const PAGE: f64 = 1200.0;
    /// The left edge of a panel.
    pub(crate) const LEFT: f64 = 28.0;
    /// Its width.
    pub(crate) const WIDTH: f64 = Panel::PAGE - 2.0 * Panel::LEFT;
}
