import { LabIcon } from '@jupyterlab/ui-components';

import fillSvg from '../style/fill.svg';

export const fillIcon = new LabIcon({ name: 'jupyt5:fill', svgstr: fillSvg });
