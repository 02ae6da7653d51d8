# Holdfast. Every target makes its own virtual environment when there is none.
