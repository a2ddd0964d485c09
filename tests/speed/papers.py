"""Networks of papers that no library has, made smaller: FOLDER/*.xml.

Needs torch and openvino: python papers.py FOLDER [NAME...]
"""

import paper_images
import paper_sequences
from converted import save

for name, (make, inputs) in (paper_images.NETWORKS | paper_sequences.NETWORKS).items():
    save(name, make, *inputs)
