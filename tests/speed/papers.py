"""Networks of papers that no library has, made smaller: FOLDER/*.xml.

Needs torch and openvino: python papers.py FOLDER [NAME...]
"""

import paper_codecs
import paper_images
import paper_mixers
import paper_pictures
import paper_records
import paper_sequences
from converted import save

FILES = (paper_images, paper_sequences, paper_pictures, paper_records, paper_codecs, paper_mixers)
for name, (make, inputs) in ((name, entry) for file in FILES for name, entry in file.NETWORKS.items()):
    save(name, make, *inputs)
