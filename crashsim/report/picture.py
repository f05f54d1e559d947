"""How the terminal looks in pictures.

rich's own SVG frame loads its font from a content delivery network. A picture in a README must not
call anybody, so the frame here names only fonts that the reader may have.
"""

from rich.terminal_theme import TerminalTheme

TERMINAL_THEME = TerminalTheme(
    (16, 20, 27),
    (214, 220, 229),
    [
        (27, 33, 43),
        (255, 107, 107),
        (105, 196, 138),
        (240, 180, 80),
        (104, 160, 240),
        (197, 134, 230),
        (92, 200, 212),
        (214, 220, 229),
    ],
    [
        (110, 120, 136),
        (255, 133, 133),
        (134, 217, 163),
        (255, 203, 112),
        (140, 186, 255),
        (216, 165, 243),
        (130, 220, 230),
        (255, 255, 255),
    ],
)

SVG_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: "Fira Code", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
  font-variant-east-asian: full-width;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
