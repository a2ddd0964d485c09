"""Networks of papers that no library has, made smaller: FOLDER/*.xml.

Needs torch and openvino: python papers.py FOLDER [NAME...]
"""

from converted import save
from paper_networks import NETWORKS

for name, (make, inputs) in NETWORKS.items():
    save(name, make, *inputs)
