"""Figures: one theme (theme.py), one function for each kind of plot (plots.py), the first values of the
waves (waves.py), and the numbers of a figure (data.py).
"""

from rollpe_book.figures.plots import (
    accuracy_under,
    correlation_matrices,
    gaps_to_the_table,
    label_line_ends,
    learning_curves,
    name_rows,
    offset_map,
    runs_beside,
    runs_in_rows,
)
from rollpe_book.figures.theme import (
    BLUE,
    DARK,
    DIVERGING,
    GREEN,
    INK,
    MUTED,
    ON_DARK,
    ON_PALE,
    ORANGE,
    PINK,
    SEQUENTIAL,
    SKY,
    VERMILION,
    YELLOW,
    color_of,
    drawn_from,
    show,
    to_dark,
    use_theme,
)
